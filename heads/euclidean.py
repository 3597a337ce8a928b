"""Euclidean distance as the similarity measure (CS224N mini-BERT paper, section 4.4)."""

import torch
from torch import Tensor, nn

from heads.base import BinaryScores, NumberScores, pair_distance


class EuclideanParaphraseHead(BinaryScores):
    """One logit, a |u - v|_2 + b (initially a = -1, b = 1): near vectors mean a paraphrase."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(-1.0))
        self.bias = nn.Parameter(torch.tensor(1.0))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """u, v [B, d] -> logits [B]."""
        return self.slope * pair_distance(u, v) + self.bias


class EuclideanSimilarityHead(NumberScores):
    """low + (high - low) / (1 + s |u - v|_2), with a learned s > 0 (initially 1).

    Args:
        low, high: the label range.
    """

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.log_scale = nn.Parameter(torch.tensor(0.0))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """u, v [B, d] -> similarities [B] on the label scale."""
        similarity = 1 / (1 + self.log_scale.exp() * pair_distance(u, v))
        return self.low + (self.high - self.low) * similarity
