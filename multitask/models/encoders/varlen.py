"""Attention over sequences of any length, without pads or groups, with torch's nested tensors.

An option for a GPU (``encoder.kernels: varlen``), where torch has kernels for it: flash attention
in bf16, memory-efficient attention in fp32. On a CPU torch computes the formula, one sequence at a
time.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from multitask.models.encoders.operators import Operators, add_norm
from multitask.models.encoders.packing import Packing


def attention(qkv: Tensor, packing: Packing, heads: int, rate: float) -> Tensor:
    """Apply ``packed_attention`` to concatenated query, key and value: [N, 3 d] -> [N, d].

    Dropout draws differ from ``packed_attention``.
    """

    def nested(part: Tensor) -> Tensor:  # [B, heads, T of each, d_head]
        rows = part.contiguous().unflatten(-1, (heads, -1))
        return torch.nested.nested_tensor_from_jagged(
            rows, packing.starts, min_seqlen=packing.shortest, max_seqlen=packing.longest
        ).transpose(1, 2)

    query, key, value = map(nested, qkv.chunk(3, dim=-1))
    mixed = scaled_dot_product_attention(query, key, value, dropout_p=rate)
    return mixed.transpose(1, 2).values().flatten(1)


VARLEN = Operators("varlen", attention, add_norm)
