"""Max over time of the last layer's token vectors (Sentence-BERT, Reimers & Gurevych 2019)."""

from torch import Tensor, nn


class MaxPooler(nn.Module):
    """max_t h_t per dimension over the real tokens, [CLS] and [SEP] included."""

    tokens = "all"

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.output_dim = dim
        self.layers = (num_layers,)

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """hidden[L] [B, T, d], mask [B, T] -> [B, d]."""
        pads = mask.unsqueeze(-1) == 0
        return hidden[self.layers[0]].masked_fill(pads, float("-inf")).amax(1)
