# Tested by tests/models/encoders/test_bert.py
"""The operators of an encoder layer between its matrix products, as torch's own.

``kernels`` and ``varlen`` have faster versions of some of them.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from multitask.models.encoders.dropout import dropout
from multitask.models.encoders.packing import Packing


def self_attention(qkv: Tensor, packing: Packing, heads: int, dropout_rate: float) -> Tensor:
    """Apply ``packed_attention`` to concatenated query, key and value: [N, 3 d] -> [N, d]."""
    query, key, value = qkv.chunk(3, dim=-1)
    return packed_attention(query, key, value, packing, heads=heads, dropout_rate=dropout_rate)


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, heads: int, dropout_rate: float
) -> Tensor:
    """Compute softmax(Q K^T / sqrt(d_head)) V per sequence and head, with dropout on the weights.

    Args:
        query: [N, s], or [B, s] for one query per sequence (shortest sequence first).
        key, value: [N, s].
        packing: the packing of the batch.
        heads: the number of heads; divides s.
        dropout_rate: the dropout of the attention weights.

    Returns:
        A tensor of the shape of ``query``.
    """
    single = len(query) != len(key)
    mixed_groups = []
    for group in packing.groups:
        q = query[group.rows].unsqueeze(1) if single else group.pad(query)
        padded = (q, group.pad(key), group.pad(value))
        q, k, v = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in padded)  # [n, h, T, d_head]
        scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2)
        weights = dropout(softmax(scores, group.mask), dropout_rate)
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        mixed_groups.append(mixed.squeeze(1) if single else group.unpad(mixed))
    return torch.cat(mixed_groups)


def softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Compute attention weights in fp32 or wider; they are exactly 0 where ``mask`` is False."""
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def add_norm(added: Tensor, residual: Tensor, norm: nn.LayerNorm, dropout_rate: float) -> Tensor:
    """LayerNorm(residual + dropout(added)): [N, d] each -> [N, d]."""
    return norm(residual + dropout(added, dropout_rate))


class Operators(NamedTuple):
    """The operators that the layers of an encoder use.

    Attributes:
        name: the value of ``encoder.kernels``.
        attend: (query, key and value [N, 3 d], packing, heads, dropout rate) -> [N, d]; see
            ``self_attention``.
        add_norm: see ``add_norm``.
    """

    name: str
    attend: Callable[[Tensor, Packing, int, float], Tensor]
    add_norm: Callable[[Tensor, Tensor, nn.LayerNorm, float], Tensor]


TORCH = Operators("torch", self_attention, add_norm)
