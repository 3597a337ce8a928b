"""The operators of an encoder layer between its matrix products, as torch's own.

``kernels`` has faster versions of some of them for a CPU.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from multitask.models.encoders.dropout import dropout
from multitask.models.encoders.packing import STORED, Packing
from multitask.utils.device import counts_launches


def attention(
    projected: Tensor,
    packing: Packing,
    heads: int,
    dropout_rate: float,
    query: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute softmax(Q K^T / sqrt(d_head) + bias) V per sequence and head, with dropout on the
    weights.

    Args:
        projected: query, key and value side by side [N, 3 s]; or only key and value [N, 2 s].
        packing: the packing of the batch.
        heads: the number of heads; divides s.
        dropout_rate: the dropout of the attention weights.
        query: without it in ``projected``, the query of each sequence's first token [B, s],
            shortest sequence first.
        bias: [heads, 2 W - 1], what is added to the scores of key j for query i at j - i + W - 1,
            where W are the tokens of the longest sequence.

    Returns:
        [N, s], or [B, s] with ``query``.
    """
    if counts_launches(projected.device):
        return padded_attention(projected, packing, heads, dropout_rate, query=query, bias=bias)
    if query is None:
        query, key, value = projected.chunk(3, dim=-1)
    else:
        key, value = projected.chunk(2, dim=-1)
    return packed_attention(
        query, key, value, packing, heads=heads, dropout_rate=dropout_rate, bias=bias
    )


class RelativeBias(nn.Module):
    """A learned number per head and bucket of relative positions (Raffel et al. 2020, section 2.1;
    the buckets are those of T5's and MPNet's code).

    Half of the buckets is for keys after the query. Distances below a quarter of the buckets have
    their own; larger ones share buckets that grow logarithmically to ``FARTHEST``.
    """

    FARTHEST = 128

    def __init__(self, buckets: int, heads: int) -> None:
        super().__init__()
        self.buckets = nn.Embedding(buckets, heads)

    def forward(self, longest: int) -> Tensor:
        """Return the bias of key j for query i at j - i + ``longest`` - 1:
        [heads, 2 ``longest`` - 1].
        """
        half = self.buckets.num_embeddings // 2
        exact = half // 2
        relative = torch.arange(1 - longest, longest, device=self.buckets.weight.device)
        distance = relative.abs()
        growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.FARTHEST / exact)
        far = (exact + (growth * (half - exact)).long()).clamp(max=half - 1)
        bucket = torch.where(distance < exact, distance, far) + half * (relative > 0)
        return self.buckets(bucket).T


def relative_scores(bias: Tensor, width: int, single: bool) -> Tensor:
    """Spread what is added by relative position, [heads, 2 W - 1], over the scores of sequences
    with ``width`` tokens: [heads, width, width], or [heads, 1, width] for the first query alone.
    """
    middle = bias.shape[1] // 2
    if single:
        return bias[:, None, middle : middle + width]
    places = torch.arange(width, device=bias.device)
    return bias[:, places - places[:, None] + middle]


def padded_attention(
    projected: Tensor,
    packing: Packing,
    heads: int,
    dropout_rate: float,
    query: Tensor | None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute ``attention`` on the whole batch, padded, in three launches."""
    padded = packing.padded
    parts = 3 if query is None else 2
    size = projected.shape[1] // parts // heads
    spread = projected.index_select(0, padded.rows)
    split = multiple_of_8(spread.view(padded.count, padded.max_seqlen, parts, heads, size))
    *queries, key, value = (part.transpose(1, 2) for part in split.unbind(2))  # [B, h, W, d_head]
    if query is None:
        (q,) = queries
    else:
        q = multiple_of_8(query.view(padded.count, heads, 1, size))
    mask = padded.bias(q.dtype)
    if bias is not None:
        added = relative_scores(bias, padded.max_seqlen, query is not None).to(q.dtype)
        stored = functional.pad(mask + added, (0, -padded.max_seqlen % STORED))
        mask = stored[..., : padded.max_seqlen]
    mixed = functional.scaled_dot_product_attention(
        q, key, value, attn_mask=mask, dropout_p=dropout_rate, scale=size**-0.5
    )
    mixed = mixed[..., :size].transpose(1, 2).flatten(2)
    return mixed.flatten(0, 1).index_select(0, padded.slots) if query is None else mixed.squeeze(1)


def multiple_of_8(vectors: Tensor) -> Tensor:
    """Fill the last axis with zeros to a multiple of 8, as the fast kernels of a GPU want it."""
    lacking = -vectors.shape[-1] % 8
    return functional.pad(vectors, (0, lacking)) if lacking else vectors


def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packing: Packing,
    heads: int,
    dropout_rate: float,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute ``attention`` group by group, for a CPU.

    Args:
        query: [N, s], or [B, s] for one query per sequence (shortest sequence first).
        key, value: [N, s].
        packing, heads, dropout_rate, bias: see ``attention``.

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
        if bias is not None:
            scores = scores + relative_scores(bias, group.max_seqlen, single)
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
        attend: (query, key and value [N, 3 d], packing, heads, dropout rate, bias=) -> [N, d]; see
            ``attention``.
        add_norm: see ``add_norm``.
    """

    name: str
    attend: Callable[..., Tensor]
    add_norm: Callable[[Tensor, Tensor, nn.LayerNorm, float], Tensor]


TORCH = Operators("torch", attention, add_norm)
