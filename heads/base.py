# Tested by tests/heads/test_heads.py
"""Losses and predictions by label type, shared by all heads of that type."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


class BinaryScores(nn.Module):
    """One logit a row: binary cross-entropy; the prediction is sigmoid(logit) rounded."""

    label_type: ClassVar[str] = "binary"
    divergence: ClassVar[str] = "symmetric_bernoulli_kl"  # for SMART

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """scores [B], labels 0/1 [B] -> mean of -(y log p + (1 - y) log(1 - p))."""
        return functional.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores [B] -> (0/1 [B], probability of 1 [B, 1])."""
        probabilities = scores.sigmoid()
        return probabilities.round().long(), probabilities.unsqueeze(1)


class NumberScores(nn.Module):
    """One number a row on the label scale: mean squared error, never clipped here."""

    label_type: ClassVar[str] = "number"
    divergence: ClassVar[str] = "squared_error"  # for SMART

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """scores [B], labels [B] -> mean of (score - label)^2."""
        return functional.mse_loss(scores, labels.to(scores.dtype))

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores [B] -> (scores [B], scores [B, 1])."""
        return scores, scores.unsqueeze(1)


def pair_distance(u: Tensor, v: Tensor) -> Tensor:
    """Euclidean distance [B]; the small term keeps the gradient finite where u = v."""
    return torch.sqrt((u - v).square().sum(-1) + 1e-12)
