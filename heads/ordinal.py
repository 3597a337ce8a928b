"""Ordinal regression: the classes are ordered, such as degrees of sentiment (McCullagh 1980)."""

import math
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from heads.base import ClassScores


class OrdinalHead(ClassScores):
    """The cumulative logit model, also called proportional odds.

    P(y <= k) = sigmoid(t_k - w . x) with one direction w and thresholds t_0 < ... < t_(C-2), so
    P(y = k) is the difference of two neighbours. The parameters are the middle of the thresholds
    and the logarithms of their gaps. So the thresholds stay in order, and they widen as fast as
    w . x grows in fine-tuning. Initially all classes are equally likely at w . x = 0. The order of
    the classes is that of ``data.labels``, or of numbers; words need ``data.labels``.

    Args:
        dim: width d of the vector.
        num_labels: number C of classes.
    """

    ordered: ClassVar[bool] = True

    def __init__(self, dim: int, num_labels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, 1, bias=False)
        shares = [(k + 1) / num_labels for k in range(num_labels - 1)]
        even = [math.log(share / (1 - share)) for share in shares]
        gaps = [above - below for below, above in pairwise(even)]
        self.middle = nn.Parameter(torch.zeros(()))
        self.log_gaps = nn.Parameter(torch.tensor(gaps).log())

    def forward(self, vector: Tensor) -> Tensor:
        """[B, d] -> log-probabilities [B, C].

        With a = t_k - w . x and b = t_(k-1) - w . x, sigmoid(a) - sigmoid(b) is
        sigmoid(a) sigmoid(-b) (1 - exp(b - a)). This avoids subtracting nearly equal numbers.
        """
        gaps = self.log_gaps.exp()
        thresholds = functional.pad(gaps.cumsum(0), (1, 0)) + self.middle - gaps.sum() / 2
        logits = thresholds - self.linear(vector)
        below = functional.pad(functional.logsigmoid(logits), (0, 1))
        above = functional.pad(functional.logsigmoid(-logits), (1, 0))
        between = functional.pad((-torch.expm1(-gaps)).log(), (1, 1))
        return below + above + between

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """log-probabilities [B, C], class ids [B] -> mean negative log-likelihood."""
        return functional.cross_entropy(scores, labels)
