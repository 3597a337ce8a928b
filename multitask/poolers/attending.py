"""What the poolers with an attention layer of their own share (MaxPoolBERT, section 3.3)."""

from torch import Tensor, nn

from multitask.poolers.base import LastLayersPooler, check_dropout, check_mask


class AttendingPooler(LastLayersPooler):
    """MHA(Q = P[:, 0], K = V = P): [CLS] attends once more to a sequence P of real tokens.

    P comes from the last k layers; a subclass says how (``over_layers``). PyTorch's multi-head
    attention as it is, its initial weights included. There is one query a sequence, so attention
    is computed for no other token. Parameters: 4 d^2 + 4 d, with ``norm`` 2 d more.

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
        query = sequence[:, :1]
        pads = mask == 0
        found, _ = self.attention(
            query, sequence, sequence, key_padding_mask=pads, need_weights=False
        )
        return self.norm(found + query if self.residual else found).squeeze(1)
