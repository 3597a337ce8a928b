# Tested by tests/heads/test_heads.py
"""Multi-label classification: one sigmoid per class, on the vector of Devlin et al. 2019."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from heads.base import Head, soft_binary_loss


class MultiLabelHead(Head):
    """Linear(d, C); each class is a separate binary decision.

    Args:
        dim: width d of the vector.
        num_labels: classes C.
    """

    task_type: ClassVar[str] = "labels"
    problem_type: ClassVar[str] = "multi_label_classification"
    reading: ClassVar[str] = (
        "One logit per class ({names}). The sigmoid of each is the probability that the row has it."
    )
    divergence: ClassVar[str] = "mean_symmetric_bernoulli_kl"

    def __init__(self, dim: int, num_labels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, num_labels)

    def forward(self, vector: Tensor) -> Tensor:
        """[B, d] -> logits [B, C]."""
        return self.linear(vector)

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [B, C], labels 0/1 [B, C] -> mean binary cross-entropy over rows and classes."""
        return functional.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))

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
