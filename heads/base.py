# Tested by tests/heads/test_heads.py
"""What heads have in common, and the losses and predictions that heads of one task type share."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


class Head(nn.Module):
    """A head maps vectors to scores; see ``heads`` for what it declares and what it is given."""

    takes: ClassVar[str]
    task_type: ClassVar[str]
    # what `transformers` calls a sequence classifier with such a last layer; "" for none
    problem_type: ClassVar[str] = ""
    # How a reader of the scores gets from them to a prediction, with {names} and {last} of the
    # classes; for model cards.
    reading: ClassVar[str] = ""
    # The same for the scores of `transformers`, where they are others.
    classifier_reading: ClassVar[str] = ""
    linear: Any

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Scores and labels of the rows that have one -> the mean loss, a scalar."""
        raise NotImplementedError

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of rows -> predictions and scores as the task type takes them."""
        raise NotImplementedError

    def per_row(self, scores: Tensor, **batch: Any) -> Tensor:
        """What is kept of each row of a batch until all rows are scored, [B, ...].

        ``batch`` has ``labels`` as for ``loss``; for heads of tokens also ``rows`` (int [M], the
        row of each of the M tokens with scores), ``shape`` (B, the most tokens of a row) and
        ``context`` (bool [B, T], the tokens that an answer may have).
        """
        return scores

    def results(self, output: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor, float]:
        """``per_row`` of N rows -> predictions, scores and the mean loss (NaN without labels)."""
        predictions, scores = self.predict(output)
        loss = float("nan") if labels is None else self.loss(output, labels).item()
        return predictions, scores, loss

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        """The scores [N, ...] of a model that only knows the training labels."""
        raise NotImplementedError

    @torch.no_grad()
    def trivial_loss(self, labels: Tensor, num_labels: int, batch_size: int) -> float:
        """The mean loss of that model on the training labels: this head's own loss, so that class
        weights and smoothing count.

        Raises ValueError if all labels are equal.
        """
        if len(labels.unique()) < 2:
            raise ValueError("all training labels are equal")
        return float(self.loss(self.trivial_scores(labels, num_labels), labels))

    def last_layer(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of ``classifier_scores``, for a head with a ``problem_type``."""
        return self.linear.weight.detach().double(), self.linear.bias.detach().double()

    def classifier_scores(self, scores: Tensor) -> Tensor:
        """The head's scores [B, ...] as a sequence classifier of `transformers` gives them."""
        return scores


class ClassScores(Head):
    """One score per class: the prediction is the highest one."""

    task_type: ClassVar[str] = "class"
    divergence: ClassVar[str] = "symmetric_kl"  # for SMART
    reading: ClassVar[str] = (
        "One logit per class ({names}). Their softmax is the probability of each class."
    )

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """logits [B, C] -> (class ids [B], probabilities [B, C])."""
        return scores.argmax(-1), scores.softmax(-1)

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        return class_frequencies(labels, num_labels)


class BinaryScores(Head):
    """One logit per row: binary cross-entropy; the prediction is sigmoid(logit) rounded."""

    task_type: ClassVar[str] = "binary"
    divergence: ClassVar[str] = "symmetric_bernoulli_kl"
    reading: ClassVar[str] = "One logit per row. Its sigmoid is the probability of {last}."

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """scores [B], labels 0/1 [B] -> mean of -(y log p + (1 - y) log(1 - p))."""
        return functional.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores [B] -> (0/1 [B], probability of 1 [B, 1])."""
        probabilities = scores.sigmoid()
        return probabilities.round().long(), probabilities.unsqueeze(1)

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        """The frequency of 1."""
        return torch.logit(labels.float().mean()).expand(len(labels))


class NumberScores(Head):
    """One number per row on the label scale: mean squared error, never clipped here."""

    task_type: ClassVar[str] = "number"
    divergence: ClassVar[str] = "squared_error"
    reading: ClassVar[str] = "A number on the label scale, which may be outside of its range."

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """scores [B], labels [B] -> mean of (score - label)^2."""
        return functional.mse_loss(scores, labels.to(scores.dtype))

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores [B] -> (scores [B], scores [B, 1])."""
        return scores, scores.unsqueeze(1)

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        """Their mean."""
        return labels.mean().expand(len(labels))


def class_frequencies(labels: Tensor, num_labels: int) -> Tensor:
    """log of the classes' frequencies [N, C]; a class that never occurs has that of one label."""
    counts = torch.bincount(labels, minlength=num_labels).clamp(min=1)
    return (counts / len(labels)).log().expand(len(labels), -1)


def pair_distance(u: Tensor, v: Tensor) -> Tensor:
    """Euclidean distance [B]; the small term keeps the gradient finite where u = v."""
    return torch.sqrt((u - v).square().sum(-1) + 1e-12)
