# Tested by tests/heads/test_heads.py
"""Multi-label classification: one sigmoid per class, on the vector of Devlin et al. 2019."""

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from heads.base import Head, soft_binary_loss


class MultiLabelHead(Head):
    """Linear(d, C); each class is a separate binary decision.

    Args:
        dim: width d of the vector.
        num_labels: classes C.
        class_counts: training rows that have each class, for ``positive_weights``.
        row_count: training rows N.
        positive_weights: null for none, a list with one weight per class, `balanced` or `sqrt`: the
            factor on the loss of rows that have the class. `balanced` is (N - n_c) / n_c, so that
            rows with and without a class weigh the same; `sqrt` is its square root.

    Raises:
        ValueError: the weights do not fit the classes, or a class has no training row.
    """

    task_type: ClassVar[str] = "labels"
    problem_type: ClassVar[str] = "multi_label_classification"
    reading: ClassVar[str] = (
        "One logit per class ({names}). The sigmoid of each is the probability that the row has it."
    )
    divergence: ClassVar[str] = "mean_symmetric_bernoulli_kl"
    from_config: ClassVar[tuple[str, ...]] = ("positive_weights",)
    positive_weights: Tensor | None

    def __init__(
        self,
        dim: int,
        num_labels: int,
        class_counts: list[int],
        row_count: int,
        positive_weights: Literal["balanced", "sqrt"] | list[float] | None = None,
    ) -> None:
        super().__init__()
        weights: list[float] | None = None
        if isinstance(positive_weights, str):
            if 0 in class_counts:
                message = f"{positive_weights} positive_weights need a training row of every class"
                raise ValueError(message)
            weights = [max(row_count - count, 1) / count for count in class_counts]
            if positive_weights == "sqrt":
                weights = [math.sqrt(weight) for weight in weights]
        elif positive_weights is not None:
            weights = [float(weight) for weight in positive_weights]
            if len(weights) != num_labels or not all(0 < weight < math.inf for weight in weights):
                raise ValueError(f"positive_weights must be {num_labels} numbers above 0")
        self.linear = nn.Linear(dim, num_labels)
        made = None if weights is None else torch.tensor(weights)
        self.register_buffer("positive_weights", made)

    def forward(self, vector: Tensor) -> Tensor:
        """[B, d] -> logits [B, C]."""
        return self.linear(vector)

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [B, C], labels 0/1 [B, C] -> mean binary cross-entropy over rows and classes.

        The loss of a class that a row has is multiplied by its positive weight.
        """
        return functional.binary_cross_entropy_with_logits(
            scores, labels.to(scores.dtype), pos_weight=self.positive_weights
        )

    def soft_loss(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """logits [B, C], probabilities [B, C] -> mean cross-entropy of the softened decisions."""
        return soft_binary_loss(scores, teacher, temperature)

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """logits [B, C] -> (1 [B, C] where the probability is above 0.5, else 0; probabilities)."""
        probabilities = scores.sigmoid()
        return (probabilities > 0.5).long(), probabilities

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        """Return the logit of each class's frequency for every row, always finite."""
        counts = labels.sum(0).clamp(min=1, max=len(labels) - 1)
        return torch.logit(counts / len(labels)).expand(len(labels), -1)
