# Tested by tests/heads/test_heads.py
"""Regression from one vector: cross-encoded similarity (Devlin et al. 2019, STS-B)."""

from typing import ClassVar

from torch import Tensor, nn

from heads.base import NumberScores


class RegressionHead(NumberScores):
    """low + (high - low) (w . x + b).

    Args:
        dim: width d of the vector.
        low, high: the label range.
    """

    problem_type: ClassVar[str] = "regression"

    def __init__(self, dim: int, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.linear = nn.Linear(dim, 1)

    def forward(self, vector: Tensor) -> Tensor:
        """[B, d] -> numbers [B] on the label scale, not clipped."""
        return self.low + (self.high - self.low) * self.linear(vector).squeeze(-1)

    def last_layer(self) -> tuple[Tensor, Tensor]:
        """Return weight and bias that include the label scale."""
        weight, bias = super().last_layer()
        span = self.high - self.low
        return span * weight, self.low + span * bias
