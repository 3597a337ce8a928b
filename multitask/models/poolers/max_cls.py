"""The maximum over the last layers' [CLS] vectors (MaxPoolBERT, section 3.2)."""

from functools import reduce

import torch
from torch import Tensor

from multitask.models.poolers.base import LastLayersPooler


class MaxCLSPooler(LastLayersPooler):
    """max_i h_i[:, 0] per dimension, over the last k layers.

    Args:
        last: k, from 1 to the number of layers; 3 in the paper. 1 is `cls`.
    """

    tokens = "first"

    def __init__(self, dim: int, num_layers: int, last: int = 3) -> None:
        super().__init__(dim, num_layers, last)

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """k hidden states [B, >=1, d], mask [B, T] -> [B, d]."""
        return reduce(torch.maximum, [state[:, 0] for state in self.taken(hidden)])
