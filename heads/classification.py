"""Softmax classification (CS224N mini-BERT paper, section 4.4.1)."""

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from heads.base import ClassScores


class ClassificationHead(ClassScores):
    """Linear(d, C) with softmax cross-entropy.

    Args:
        dim: width d of the vector.
        num_labels: classes C.
        class_counts: training rows of each class, for ``class_weights="balanced"``.
        class_weights: null for none, a list with one weight per class, or `balanced`: N / (C n_c),
            as in scikit-learn. The loss is the mean over rows of weight times cross-entropy. It is
            not divided by the sum of weights of the batch, so it does not depend on how rows are
            batched.
        label_smoothing: share of the target that is spread evenly over the classes.

    Raises:
        ValueError: the weights do not fit the classes, or the smoothing is outside [0, 1).
    """

    problem_type: ClassVar[str] = "single_label_classification"
    from_config: ClassVar[tuple[str, ...]] = ("class_weights",)
    class_weights: Tensor | None

    def __init__(
        self,
        dim: int,
        num_labels: int,
        class_counts: list[int],
        class_weights: Literal["balanced"] | list[float] | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), not {label_smoothing}")
        weights: list[float] | None = None
        if class_weights == "balanced":
            if 0 in class_counts:
                raise ValueError("balanced class_weights need a training row of every class")
            weights = [sum(class_counts) / (num_labels * count) for count in class_counts]
        elif class_weights is not None:
            weights = [float(weight) for weight in class_weights]
            if len(weights) != num_labels or not all(0 <= weight < math.inf for weight in weights):
                raise ValueError(f"class_weights must be {num_labels} numbers, none negative")
            if not any(weights):
                raise ValueError("class_weights must not all be 0: nothing would be learned")
        self.linear = nn.Linear(dim, num_labels)
        self.label_smoothing = label_smoothing
        # the numbers are checked before: a tensor has no values when a saved run is rebuilt
        self.register_buffer("class_weights", None if weights is None else torch.tensor(weights))

    def forward(self, vector: Tensor) -> Tensor:
        """[B, d] -> logits [B, C]."""
        return self.linear(vector)

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [B, C], class ids [B] -> mean over rows of the (weighted) cross-entropy."""
        weight, smoothing = self.class_weights, self.label_smoothing
        losses = functional.cross_entropy(
            scores, labels, weight, label_smoothing=smoothing, reduction="none"
        )
        return losses.mean()
