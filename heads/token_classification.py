"""A tag for every word, as in named entity recognition (Devlin et al. 2019, section 5.3)."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


class TokenClassificationHead(nn.Module):
    """Linear(d, C) on the first word piece of each word, with softmax cross-entropy.

    Args:
        dim: width d of a token's vector.
        num_labels: tags C.
    """

    takes: ClassVar[str] = "tokens"
    label_type: ClassVar[str] = "tags"

    def __init__(self, dim: int, num_labels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, num_labels)

    def forward(self, tokens: Tensor) -> Tensor:
        """Vectors of the first pieces alone [M, d] -> logits [M, C]."""
        return self.linear(tokens)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [M, C], tag ids [M] -> mean cross-entropy over words."""
        return functional.cross_entropy(scores, labels)

    def outcomes(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [M, C], tag ids [M] -> [M, 3]: likeliest tag, its probability, the gold's loss."""
        best, tags = scores.softmax(-1).max(-1)
        losses = functional.cross_entropy(scores, labels, reduction="none")
        return torch.stack([tags.to(scores.dtype), best, losses], 1)
