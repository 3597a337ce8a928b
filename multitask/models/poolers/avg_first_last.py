"""Mean of the first and the last layer's token means (SimCSE's `avg_first_last`)."""

from typing import Literal

from torch import Tensor, nn

from multitask.models.poolers.base import token_mean


class AverageFirstLastPooler(nn.Module):
    """(mean_t h_first + mean_t h_L) / 2 over the real tokens, [CLS] and [SEP] included.

    Args:
        dim: width d.
        num_layers: layers L.
        first: 1 is the first layer's output, as in SimCSE's corrected code; 0 the embeddings.
    """

    tokens = "all"

    def __init__(self, dim: int, num_layers: int, first: Literal[0, 1] = 1) -> None:
        super().__init__()
        self.output_dim = dim
        self.first, self.last = first, num_layers
        self.layers = tuple({first, num_layers})

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """hidden[first], hidden[L] [B, T, d], mask [B, T] -> [B, d]."""
        return (token_mean(hidden[self.first], mask) + token_mean(hidden[self.last], mask)) / 2
