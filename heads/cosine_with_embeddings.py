# Tested by tests/heads/test_heads.py
"""Similarity from the cosine and the embeddings of a pair (CS224N mini-BERT paper, 4.4.3)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from heads.base import NumberScores


class CosineWithEmbeddingsHead(NumberScores):
    """low + (high - low) (w . [cos(a, b); a; b] + c), with a and b: u and v after a linear layer.

    "We adopt a linear to adjust the weight before calculating the cos-sim and concatenate with
    sentence embeddings for prediction." The score depends on the order of the pair.

    Args:
        dim: width d of a sentence vector.
        low, high: the label range.
    """

    def __init__(self, dim: int, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.adjust = nn.Linear(dim, dim)
        self.output = nn.Linear(2 * dim + 1, 1)

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """u, v [B, d] -> similarities [B] on the label scale, not clipped."""
        a, b = self.adjust(u), self.adjust(v)
        cosine = functional.cosine_similarity(a, b, dim=-1).unsqueeze(-1)
        score = self.output(torch.cat([cosine, a, b], dim=-1)).squeeze(-1)
        return self.low + (self.high - self.low) * score
