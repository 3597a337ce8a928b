"""The base class of poolers with an attention layer (MaxPoolBERT, section 3.3)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from multitask.models.poolers.base import LastLayersPooler, check_dropout, check_mask


class AttendingPooler(LastLayersPooler):
    """MHA(Q = P[:, 0], K = V = P): [CLS] attends once more to a sequence P of real tokens.

    A subclass computes P from the last k layers (``over_layers``). The parameters and their initial
    values are those of PyTorch's multi-head attention, and ``attend`` computes the same result.
    There are 4 d^2 + 4 d parameters, and 2 d more with ``norm``.

    Args:
        last: k, from 1 to the number of layers; 3 in the paper. 1 is `mha`.
        heads: number of attention heads; divides the width. 4 in the paper.
        dropout: dropout rate of the attention weights; 0 by default, as the paper mentions none.
        residual: add P[:, 0] to the result, which the paper's formulas do not.
        norm: apply a LayerNorm to the result, which the paper's formulas do not.

    Raises:
        ValueError: k is out of range, heads do not divide the width, or dropout is outside [0, 1).
    """

    tokens = "all"

    def __init__(
        self,
        dim: int,
        num_layers: int,
        last: int = 3,
        heads: int = 4,
        dropout: float = 0.0,
        residual: bool = False,
        norm: bool = False,
    ) -> None:
        super().__init__(dim, num_layers, last)
        if heads < 1 or dim % heads:
            raise ValueError(f"heads must divide the encoder's width: {heads} heads, width {dim}")
        rate = check_dropout(dropout)
        self.attention = nn.MultiheadAttention(dim, heads, dropout=rate, batch_first=True)
        self.residual = residual
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()

    def over_layers(self, states: list[Tensor]) -> Tensor:
        """k states [B, T, d] -> P [B, T, d], token by token."""
        raise NotImplementedError

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """k hidden states [B, T, d], mask [B, T] -> [B, d]."""
        check_mask(mask)
        sequence = self.over_layers(self.taken(hidden))
        attended = attend(self.attention, sequence, mask)
        return self.norm(attended + sequence[:, 0] if self.residual else attended)


def attend(attention: nn.MultiheadAttention, sequence: Tensor, mask: Tensor) -> Tensor:
    """Attend from the first token to a sequence [B, T, d], mask [B, T] -> [B, d].

    With one query per sequence, tokens need no keys and values. For a head's query q and weights a,

        q . (W_k x_t + b_k) = (W_k^T q) . x_t + q . b_k
        sum_t a_t (W_v x_t + b_v) = W_v (sum_t a_t x_t) + b_v sum_t a_t

    so products of size d^2 are computed once per sequence, not once per token.
    """
    heads = attention.num_heads
    w_q, w_k, w_v = (w.unflatten(0, (heads, -1)) for w in attention.in_proj_weight.chunk(3))
    b_q, b_k, b_v = (b.unflatten(0, (heads, -1)) for b in attention.in_proj_bias.chunk(3))
    query = torch.einsum("bd,hed->bhe", sequence[:, 0], w_q) + b_q
    query = query / math.sqrt(attention.head_dim)
    toward = torch.einsum("bhe,hed->bhd", query, w_k)
    scores = toward @ sequence.transpose(1, 2) + (query * b_k).sum(-1, keepdim=True)
    scores = scores.masked_fill((mask == 0)[:, None], -math.inf)
    exact = torch.promote_types(scores.dtype, torch.float32)  # fp32 for bf16 scores
    weights = scores.softmax(-1, dtype=exact).to(sequence.dtype)
    weights = F.dropout(weights, attention.dropout, attention.training)
    values = torch.einsum("bhd,hed->bhe", weights @ sequence, w_v)
    values = values + weights.sum(-1, keepdim=True) * b_v
    return attention.out_proj(values.flatten(1))
