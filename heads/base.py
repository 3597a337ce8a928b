# Tested by tests/heads/test_heads.py
"""The base class of heads, and a class per task type with a common loss and prediction."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


class Head(nn.Module):
    """Maps vectors to scores; ``heads`` describes its arguments and what it declares."""

    takes: ClassVar[str]
    task_type: ClassVar[str]
    # True if the head uses the order of the classes
    ordered: ClassVar[bool] = False
    # `problem_type` of a sequence classifier of `transformers` with this last layer; "" for none
    problem_type: ClassVar[str] = ""
    # How to read a prediction from the scores, for model cards; {names} and {last} of the classes
    # are filled in.
    reading: ClassVar[str] = ""
    # The same for the scores of `transformers`, if they differ.
    classifier_reading: ClassVar[str] = ""
    # Factor on the learning rate in a trial (`--try`), whose few steps move some heads too little.
    trial_rate: ClassVar[float] = 1
    # What to try next, for the report; {task} is filled in. "" for nothing.
    advice: str = ""
    # Buffers that options and training rows decide: `init_from` does not copy them.
    from_config: ClassVar[tuple[str, ...]] = ()
    linear: Any

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Scores and labels of labelled rows -> the mean loss, a scalar."""
        raise NotImplementedError

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of rows -> predictions and scores in the form of the task type."""
        raise NotImplementedError

    def row_values(self, scores: Tensor, **batch: Any) -> Tensor:
        """Return the values per row that ``results`` needs of a batch, [B, ...].

        ``batch`` has ``labels`` as for ``loss``. For heads that take tokens or a sequence it also
        has ``rows`` (int [M], the row of each of the M tokens with scores), ``shape`` (B, most
        tokens of a row) and ``context`` (bool [B, T], the tokens that an answer may have).
        """
        return scores

    def results(self, output: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor, float]:
        """``row_values`` of N rows -> predictions, scores, mean loss (NaN without labels)."""
        predictions, scores = self.predict(output)
        loss = float("nan") if labels is None else self.loss(output, labels).item()
        return predictions, scores, loss

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        """Return the scores [N, ...] of a trivial model, which knows only the training labels."""
        raise NotImplementedError

    @torch.no_grad()
    def trivial_loss(self, labels: Tensor, num_labels: int, batch_size: int) -> float:
        """Return the mean loss of the trivial model on the training labels.

        It is the loss of this head, with its class weights and label smoothing. Raises ValueError
        if all labels are equal.
        """
        if len(labels.unique()) < 2:
            raise ValueError("all training labels are equal")
        return float(self.loss(self.trivial_scores(labels, num_labels), labels))

    def last_layer(self) -> tuple[Tensor, Tensor]:
        """Return weight and bias for ``classifier_scores``, if the head has a ``problem_type``."""
        return self.linear.weight.detach().double(), self.linear.bias.detach().double()

    def classifier_scores(self, scores: Tensor) -> Tensor:
        """Convert scores [B, ...] to those of a sequence classifier of `transformers`."""
        return scores


class ClassScores(Head):
    """One score per class; the class with the highest score is predicted."""

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
    """One logit per row with binary cross-entropy; the prediction is sigmoid(logit), rounded."""

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
        """Return the logit of the frequency of 1 for every row."""
        return torch.logit(labels.float().mean()).expand(len(labels))


class NumberScores(Head):
    """One number per row on the label scale with mean squared error.

    The loss is that of the head's numbers. A prediction is clipped to the scale from ``low`` to
    ``high``, which a subclass sets.
    """

    task_type: ClassVar[str] = "number"
    divergence: ClassVar[str] = "squared_error"
    reading: ClassVar[str] = (
        "A number on the label scale, which may be outside of its range. The run clips it."
    )
    low, high = -math.inf, math.inf

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """scores [B], labels [B] -> mean of (score - label)^2."""
        return functional.mse_loss(scores, labels.to(scores.dtype))

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores [B] -> (clipped scores [B], the same [B, 1])."""
        clipped = scores.clamp(self.low, self.high)
        return clipped, clipped.unsqueeze(1)

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        """Return the mean label for every row."""
        return labels.mean().expand(len(labels))


def class_frequencies(labels: Tensor, num_labels: int) -> Tensor:
    """Return the log frequencies of the classes [N, C]; an unused class counts as one label."""
    counts = torch.bincount(labels, minlength=num_labels).clamp(min=1)
    return (counts / len(labels)).log().expand(len(labels), -1)


def pair_distance(u: Tensor, v: Tensor) -> Tensor:
    """Return the Euclidean distance [B]; a small term keeps the gradient finite at u = v."""
    return torch.sqrt((u - v).square().sum(-1) + 1e-12)
