"""Binary classification of one vector: cross-encoded pairs or single texts (Devlin et al. 2019)."""

from typing import ClassVar

from torch import Tensor, nn

from heads.base import BinaryScores


class BinaryHead(BinaryScores):
    """One logit, Linear(d, 1).

    Args:
        dim: width d of the vector.
    """

    takes: ClassVar[str] = "vector"
    problem_type: ClassVar[str] = "multi_label_classification"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, 1)

    def forward(self, vector: Tensor) -> Tensor:
        """[B, d] -> logits [B]."""
        return self.linear(vector).squeeze(-1)
