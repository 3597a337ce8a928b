"""What the poolers with an attention layer of their own share (MaxPoolBERT, section 3.3)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from multitask.models.poolers.base import LastLayersPooler, check_dropout, check_mask


class AttendingPooler(LastLayersPooler):
    """MHA(Q = P[:, 0], K = V = P): [CLS] attends once more to a sequence P of real tokens.

    P comes from the last k layers; a subclass says how (``over_layers``). The parameters are those
    of PyTorch's multi-head attention, their initial values included; ``attend`` computes the same.
    Parameters: 4 d^2 + 4 d, with ``norm`` 2 d more.

    Args:
        last: k, from 1 to the number of layers; 3 in the paper. With 1 this is `mha`.
        heads: attention heads; divides the width. 4 in the paper.
        dropout: of the attention weights; none by default, as the paper names none.
        residual: add P[:, 0] to the result; the paper's formulas do not.
        norm: LayerNorm on the result; the paper's formulas have none.

    Raises:
        ValueError: a k that is no number of layers, heads that do not divide the width, or a
            dropout outside [0, 1).
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
        """k states [B, T, d] -> P [B, T, d], each token for itself."""
        raise NotImplementedError

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """k hidden states [B, T, d], mask [B, T] -> [B, d]."""
        check_mask(mask)
        sequence = self.over_layers(self.taken(hidden))
        found = attend(self.attention, sequence, mask)
        return self.norm(found + sequence[:, 0] if self.residual else found)


def attend(attention: nn.MultiheadAttention, sequence: Tensor, mask: Tensor) -> Tensor:
    """``attention`` from the first token to a sequence [B, T, d], mask [B, T] -> [B, d].

    With one query a sequence no token needs a key or a value. For a head's query q and weights a,

        q . (W_k x_t + b_k) = (W_k^T q) . x_t + q . b_k
        sum_t a_t (W_v x_t + b_v) = W_v (sum_t a_t x_t) + b_v sum_t a_t

    which has products of d^2 once a sequence, not once a token.
    """
    heads = attention.num_heads
    w_q, w_k, w_v = (w.unflatten(0, (heads, -1)) for w in attention.in_proj_weight.chunk(3))
    b_q, b_k, b_v = (b.unflatten(0, (heads, -1)) for b in attention.in_proj_bias.chunk(3))
    query = torch.einsum("bd,hed->bhe", sequence[:, 0], w_q) + b_q
    query = query / math.sqrt(attention.head_dim)
    toward = torch.einsum("bhe,hed->bhd", query, w_k)
    scores = toward @ sequence.transpose(1, 2) + (query * b_k).sum(-1, keepdim=True)
    scores = scores.masked_fill((mask == 0)[:, None], -math.inf)
    exact = torch.promote_types(scores.dtype, torch.float32)  # of bf16 scores too
    weights = scores.softmax(-1, dtype=exact).to(sequence.dtype)
    weights = F.dropout(weights, attention.dropout, attention.training)
    values = torch.einsum("bhd,hed->bhe", weights @ sequence, w_v)
    values = values + weights.sum(-1, keepdim=True) * b_v
    found: Tensor = attention.out_proj(values.flatten(1))
    return found
