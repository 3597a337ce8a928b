"""Binary classification of one vector: cross-encoded pairs or single texts (Devlin et al. 2019)."""

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from heads.base import BinaryScores, ClassScores


class BinaryHead(BinaryScores):
    """One logit, Linear(d, 1).

    Args:
        dim: width d of the vector.
    """

    problem_type: ClassVar[str] = "single_label_classification"
    classifier_reading: ClassVar[str] = ClassScores.reading

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, 1)

    def forward(self, vector: Tensor) -> Tensor:
        """[B, d] -> logits [B]."""
        return self.linear(vector).squeeze(-1)

    def last_layer(self) -> tuple[Tensor, Tensor]:
        """Return a layer with two logits, the first 0: their softmax is the sigmoid."""
        weight, bias = super().last_layer()
        return functional.pad(weight, (0, 0, 1, 0)), functional.pad(bias, (1, 0))

    def classifier_scores(self, scores: Tensor) -> Tensor:
        """[B] -> [B, 2]."""
        return functional.pad(scores.unsqueeze(-1), (1, 0))
