"""Choose one of n endings (Radford et al. 2018; `AutoModelForMultipleChoice` of transformers)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from heads.base import ClassScores


class MultipleChoiceHead(ClassScores):
    """Linear(d, 1) of the vector of each ending, with softmax cross-entropy over the n endings."""

    task_type: ClassVar[str] = "choice"
    reading: ClassVar[str] = (
        "One logit per ending. Their softmax over the endings of a row is the probability of each."
    )

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, 1)

    @classmethod
    def reads(cls, form: Any, vectors: bool) -> bool:
        return vectors and form.sides is None

    def forward(self, *vectors: Tensor) -> Tensor:
        """n vectors [B, d], one per ending -> logits [B, n]."""
        return self.linear(torch.stack(vectors, dim=1)).squeeze(-1)

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [B, n], places of the right endings [B] -> mean cross-entropy."""
        return functional.cross_entropy(scores, labels)
