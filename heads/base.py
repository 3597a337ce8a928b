"""The base class of heads, and a class per task type with a common loss and prediction."""

import inspect
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


class Head(nn.Module):
    """Maps vectors to scores; ``heads`` describes its arguments.

    A subclass has ``forward``, ``criterion``, ``predict`` and a ``task_type``.
    """

    task_type: ClassVar[str] = ""
    # True if the head uses the order of the classes
    ordered: ClassVar[bool] = False
    # `problem_type` of a sequence classifier of `transformers` with this last layer; "" for none
    problem_type: ClassVar[str] = ""
    # How to read a prediction from the scores, for model cards; {names} and {last} of the classes
    # are filled in.
    reading: ClassVar[str] = ""
    # The same for the scores of `transformers`, if they differ.
    classifier_reading: ClassVar[str] = ""
    # True if the predicted class of a pair depends on the order of its texts.
    order_matters: bool = False
    # Factor on the learning rate in a trial (`--try`), whose few steps move some heads too little.
    trial_rate: ClassVar[float] = 1
    # What to try next, for the report; {task} is filled in. "" for nothing.
    advice: str = ""
    # Buffers that options and training rows decide: `init_from` does not copy them.
    from_config: ClassVar[tuple[str, ...]] = ()
    # Distance of two outputs for SMART, a key of ``smart.divergence.DIVERGENCES``; "" for none.
    divergence: ClassVar[str] = ""
    # True if the head scores the vectors before the task's projection, which only training has.
    mlp_only_train: bool = False
    # Sequences that are encoded at a time in training; None for all.
    chunk: int | None = None
    # The loss is the sum over the first k numbers of each vector, for each k here; () for all
    # numbers alone (Kusupati et al. 2022, equation 1).
    matryoshka: tuple[int, ...] = ()
    # Share of the tokens that training masks, by words or by tokens; None if it masks none.
    mask_share: float | None = None
    whole_words: bool = False
    # A masked language model that training needs (``use_generator``); "" for none.
    generator_name: str = ""
    linear: Any

    @property
    def threshold(self) -> Any:
        """A buffer, a number that the rows of the holdout choose; None without one."""
        return None

    @classmethod
    def reads(cls, form: Any, vectors: bool) -> bool:
        """Return True if the head fits an input, a ``multitask.data.inputs.base.Input``.

        With ``vectors`` each sequence of a row is pooled to a vector, else the head gets tokens.
        """
        return vectors and form.sides == len(inspect.signature(cls.forward).parameters) - 1

    def train_sizes(self, sizes: Sequence[int] | None, dim: int) -> None:
        """Set ``matryoshka`` for vectors of width ``dim``; None for all numbers alone.

        Raises ValueError unless the sizes are different numbers from 1 to ``dim``.
        """
        made = tuple(sizes or ())
        if (sizes is not None and not made) or len({*made} & {*range(1, dim + 1)}) < len(made):
            raise ValueError(f"matryoshka must be different numbers from 1 to {dim}, not {sizes}")
        self.matryoshka = made

    @property
    def terms(self) -> int:
        """Return the number of losses in the sum of ``loss``."""
        return len(self.matryoshka) or 1

    def scores(self, pooled: Tensor, batch: Any) -> Tensor:
        """Vectors [sides * B, d], all first sequences first -> scores of the rows with a label."""
        scores = self(*pooled.chunk(batch.sides))
        return scores if batch.labelled is None else scores[batch.labelled]

    def loss(self, pooled: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """Return the mean loss of a batch, a scalar, and ``scores``; 0 if no row has a label."""
        scores = self.scores(pooled, batch)
        if not len(scores):
            return scores.sum(), scores
        parts = [self.scores(pooled[:, :size], batch) for size in self.matryoshka] or [scores]
        return torch.stack([self.mixed_loss(part, batch) for part in parts]).sum(), scores

    def mixed_loss(self, scores: Tensor, batch: Any) -> Tensor:
        """Return the mean loss on the labels, mixed with that on a teacher's scores, a scalar.

        (1 - w) * criterion + w * T^2 * soft_loss, with the weight w and the temperature T of the
        batch (Hinton et al. 2015, section 2).
        """
        loss = self.criterion(scores, batch.labels)
        if batch.teacher is None:
            return loss
        weight, temperature = batch.teacher_weight, batch.temperature
        soft = self.soft_loss(scores, batch.teacher.to(scores.dtype), temperature)
        return (1 - weight) * loss + weight * temperature**2 * soft

    def soft_loss(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """Scores of rows, and a teacher's [B, K] as ``predict`` has them -> the mean loss."""
        raise NotImplementedError

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Scores and labels of labelled rows -> the mean loss, a scalar."""
        raise NotImplementedError

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of rows -> predictions and scores in the form of the task type."""
        raise NotImplementedError

    def row_values(self, scores: Tensor, batch: Any, longest: int) -> Tensor:
        """Return the values per row that ``results`` needs of a batch, [B, ...].

        ``longest`` is the largest number of labelled tokens of a row of the split.
        """
        return scores

    def results(self, output: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor, float]:
        """``row_values`` of N rows -> predictions, scores, mean loss (NaN without labels)."""
        predictions, scores = self.predict(output)
        loss = float("nan") if labels is None else self.criterion(output, labels).item()
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
        loss = float(self.criterion(self.trivial_scores(labels, num_labels), labels))
        return loss * self.terms

    def last_layer(self) -> tuple[Tensor, Tensor]:
        """Return weight and bias for ``classifier_scores``, if the head has a ``problem_type``."""
        return self.linear.weight.detach().double(), self.linear.bias.detach().double()

    def classifier_scores(self, scores: Tensor) -> Tensor:
        """Convert scores [B, ...] to those of a sequence classifier of `transformers`."""
        return scores


class ClassScores(Head):
    """One score per class; the class with the highest score is predicted."""

    task_type: ClassVar[str] = "class"
    divergence: ClassVar[str] = "symmetric_kl"
    reading: ClassVar[str] = (
        "One logit per class ({names}). Their softmax is the probability of each class."
    )

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """logits [B, C] -> (class ids [B], probabilities [B, C])."""
        return scores.argmax(-1), scores.softmax(-1)

    def soft_loss(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """logits [B, C], probabilities [B, C] -> mean cross-entropy of the softened classes."""
        target = (_log(teacher) / temperature).softmax(-1)
        return functional.cross_entropy(scores / temperature, target)

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        return class_frequencies(labels, num_labels)


class BinaryScores(Head):
    """One logit per row with binary cross-entropy; the prediction is sigmoid(logit), rounded."""

    task_type: ClassVar[str] = "binary"
    divergence: ClassVar[str] = "symmetric_bernoulli_kl"
    reading: ClassVar[str] = "One logit per row. Its sigmoid is the probability of {last}."

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """scores [B], labels 0/1 [B] -> mean of -(y log p + (1 - y) log(1 - p))."""
        return functional.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores [B] -> (0/1 [B], probability of 1 [B, 1])."""
        probabilities = scores.sigmoid()
        return probabilities.round().long(), probabilities.unsqueeze(1)

    def soft_loss(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """scores [B], probabilities of 1 [B, 1] -> mean cross-entropy of the softened classes."""
        return soft_binary_loss(scores, teacher.squeeze(1), temperature)

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

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """scores [B], labels [B] -> mean of (score - label)^2."""
        return functional.mse_loss(scores, labels.to(scores.dtype))

    def predict(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores [B] -> (clipped scores [B], the same [B, 1])."""
        clipped = scores.clamp(self.low, self.high)
        return clipped, clipped.unsqueeze(1)

    def soft_loss(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """scores [B], the teacher's [B, 1] -> mean of (score - teacher's score)^2."""
        return self.criterion(scores, teacher.squeeze(1))

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        """Return the mean label for every row."""
        return labels.mean().expand(len(labels))


def soft_binary_loss(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Logits, and a teacher's probabilities of the same shape -> mean binary cross-entropy.

    Both are softened: sigmoid(logit(p) / T).
    """
    target = ((_log(teacher) - _log(1 - teacher)) / temperature).sigmoid()
    return functional.binary_cross_entropy_with_logits(logits / temperature, target)


def _log(probabilities: Tensor) -> Tensor:
    """Return the logarithm; a probability that was rounded to 0 stays finite."""
    return probabilities.clamp(min=1e-12).log()


def class_frequencies(labels: Tensor, num_labels: int) -> Tensor:
    """Return the log frequencies of the classes [N, C]; an unused class counts as one label."""
    counts = torch.bincount(labels, minlength=num_labels).clamp(min=1)
    return (counts / len(labels)).log().expand(len(labels), -1)


def pair_distance(u: Tensor, v: Tensor) -> Tensor:
    """Return the Euclidean distance [B]; a small term keeps the gradient finite at u = v."""
    return torch.sqrt((u - v).square().sum(-1) + 1e-12)
