"""What a step minimises: the tasks' losses, and SMART's terms for the tasks that have them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from multitask.config import Config
from multitask.config.registry import imported
from multitask.data.collate import Batch, SharedBatch, by_task, label_tensor, separate
from multitask.data.splits import Data
from multitask.models.encoders.bitlinear import BitLinear
from multitask.models.multitask_model import MultiTaskModel
from multitask.utils.rng import pack_rng, replayed
from smart.adversarial import Ascent, perturbation
from smart.divergence import DIVERGENCES


class Outcome(NamedTuple):
    """A task's losses on a batch.

    Attributes:
        loss: the mean loss over the rows with a label, a scalar in fp32.
        scores: the head's scores of these rows.
        penalty: the weighted sum of SMART's terms, a scalar; None if the task has none now.
    """

    loss: Tensor
    scores: Tensor
    penalty: Tensor | None = None


@dataclass(frozen=True)
class Smoothing:
    """A task's SMART terms.

    Attributes:
        ascent: how the perturbation is found.
        weight: lambda_s of the adversarial term.
        bregman: mu of the term against the momentum teacher.
        perturb: what is perturbed: the "embeddings", or the "pooled" vectors.
        dropout: "same_mask": f(x + delta) drops what f(x) dropped. "eval": both without dropout.
            "independent": each draws its masks.
        every: the task's steps from one with SMART to the next.
    """

    ascent: Ascent = field(default_factory=Ascent)
    weight: float = 1.0
    bregman: float = 0.0
    perturb: str = "embeddings"
    dropout: str = "same_mask"
    every: int = 1

    def due(self, trained: int) -> bool:
        """Return True if the step after the task's first ``trained`` ones has SMART's terms."""
        return (trained + 1) % self.every == 0 and (self.weight > 0 or self.bregman > 0)


@dataclass(frozen=True)
class Objective:
    """What a step minimises: the tasks' weighted losses, and SMART's terms for tasks with them.

    Attributes:
        weights: the factor on each task's loss and on its SMART terms.
        smoothing: SMART's terms, by task.
        teacher: the momentum teacher of SMART's Bregman terms.
    """

    weights: Mapping[str, float]
    smoothing: Mapping[str, Smoothing] = field(default_factory=dict)
    teacher: MultiTaskModel | None = None

    def due(self, trained: Mapping[str, int]) -> "Objective":
        """Return the same objective with the SMART terms that are due in each task's next step.

        ``trained`` counts the steps that have trained each task.
        """
        due = {t: one for t, one in self.smoothing.items() if one.due(trained.get(t, 0))}
        return replace(self, smoothing=due)

    def losses(
        self, model: MultiTaskModel, batches: Sequence[SharedBatch], *, apart: bool = False
    ) -> dict[str, Outcome]:
        """Return each task's outcome; see ``task_losses``."""
        return task_losses(model, batches, self.smoothing, self.teacher, apart=apart)


def task_losses(
    model: MultiTaskModel,
    batches: Sequence[SharedBatch],
    smoothing: Mapping[str, Smoothing] | None = None,
    teacher: MultiTaskModel | None = None,
    apart: bool = False,
) -> dict[str, Outcome]:
    """Compute each task's outcome on its batch; the loss is 0 if no row has a label.

    The tasks share an encoder pass as far as they can (``MultiTaskModel.passes``). A task in
    ``smoothing`` has a pass for itself and a penalty. With ``apart`` every task has a pass for
    itself. ``teacher`` is the one of the Bregman terms.
    """
    smooth = smoothing or {}
    found: dict[str, Outcome] = {}
    tasks = by_task(batches)
    for encoded in model.passes(batches, apart=tasks if apart else smooth):
        first, batch = next(iter(by_task(encoded).items()))
        if first in smooth:
            found[first] = _smoothed(_View(model, first, batch, smooth[first]), teacher)
            continue
        for task, vectors in model.encode(encoded).items():
            scores = _scores(model, task, tasks[task], vectors)
            found[task] = Outcome(_loss(model, task, tasks[task], scores), scores)
    return {task: found[task] for task in tasks}


def weighted(model: MultiTaskModel, task: str, value: Tensor, share: float) -> Tensor:
    """Apply a task's learned weight to its part of the objective, if it has one.

    value / (2 exp(s)) + share * s / 2 (Kendall et al. 2018).
    """
    if task not in model.log_variances:
        return value
    s = model.log_variances[task]
    return value / (2 * s.exp()) + share * s / 2


def learned_weights(model: MultiTaskModel) -> dict[str, float]:
    """Return the factor that ``weighted`` applies to each task; empty if no weight is learned."""
    return {task: 1 / (2 * s.exp().item()) for task, s in model.log_variances.items()}


def _scores(model: MultiTaskModel, task: str, batch: Batch, vectors: Tensor) -> Tensor:
    """The head's scores of the labelled rows."""
    scores = model.scores(task, batch, vectors)
    return scores if batch.labelled is None else scores[batch.labelled]


def _loss(model: MultiTaskModel, task: str, batch: Batch, scores: Tensor) -> Tensor:
    loss = model.head(task).loss(scores, batch.labels) if len(scores) else scores.sum()
    if batch.masked_ids is not None:
        loss = loss + model.detection_loss(task, scores, batch)
    return loss


def _smoothed(view: "_View", teacher: MultiTaskModel | None) -> Outcome:
    """Compute loss and penalty; the pass that gives the loss serves as f(x).

    Outputs of the encoder are compared in fp32: in bf16 a number near 1 moves in steps of .004, and
    perturbations are 1e-5.
    """
    model, task, settings = view.model, view.task, view.settings
    point = view.point()
    scores = point.scores
    loss = _loss(model, task, view.batch, scores)
    if not len(scores):
        return Outcome(loss, scores, scores.sum())
    divergence = DIVERGENCES[model.head(task).divergence]
    penalty = scores.new_zeros(())
    if settings.bregman and teacher is not None:
        with torch.no_grad(), without_dropout(teacher):
            theirs = replace(view, model=teacher).point().scores
        penalty = penalty + settings.bregman * divergence(scores, theirs).mean()
    if settings.weight:
        same = partial(replayed, point.drawn) if settings.dropout == "same_mask" else nullcontext
        with without_dropout(model) if settings.dropout == "eval" else nullcontext():
            if settings.dropout == "eval":
                point = view.point()
            with _untracked(model, task):
                term = _smoothness(
                    view, point, ascent=settings.ascent, divergence=divergence, same=same
                )
        penalty = penalty + settings.weight * term
    return Outcome(loss, scores, penalty)


class _Point(NamedTuple):
    """Where the perturbation starts.

    Attributes:
        x: what is perturbed [S, T, d].
        mask: 1 for tokens, 0 for pads [S, T].
        scores: f(x).
        drawn: the random states that f(x) began with.
    """

    x: Tensor
    mask: Tensor
    scores: Tensor
    drawn: dict[str, Tensor]


@dataclass
class _View:
    """A batch as a function f of what is perturbed."""

    model: MultiTaskModel
    task: str
    batch: Batch
    settings: Smoothing

    def point(self) -> _Point:
        """Compute x without a perturbation, and f(x)."""
        embedded, mask = self.model.embed(separate({self.task: self.batch}))
        drawn = pack_rng()
        if self.settings.perturb == "embeddings":
            return _Point(embedded, mask, self(embedded), drawn)
        pooled = self._pool(embedded).unsqueeze(1)
        drawn = pack_rng()
        return _Point(pooled, torch.ones_like(mask[:, :1]), self(pooled), drawn)

    def __call__(self, x: Tensor) -> Tensor:
        """Compute f(x): the scores of the rows with a label."""
        vectors = self._pool(x) if self.settings.perturb == "embeddings" else x.squeeze(1)
        return _scores(self.model, self.task, self.batch, vectors)

    def _pool(self, embedded: Tensor) -> Tensor:
        alone, mask = separate({self.task: self.batch}), self.batch.attention_mask
        # perturbed pooled vectors meet the head alone, which is in fp32 anyway
        only_head = self.settings.perturb == "pooled" and not self.settings.bregman
        autocast = None if only_head else False
        return self.model.pool(alone, embedded, mask, autocast=autocast)[self.task]


def _smoothness(
    f: Callable[[Tensor], Tensor],
    point: _Point,
    *,
    ascent: Ascent,
    divergence: Callable[[Tensor, Tensor], Tensor],
    same: Callable[[], AbstractContextManager[Any]],
) -> Tensor:
    """Compute mean_i l_s(f(x_i + delta_i), f(x_i)), a scalar, with the delta that ascent finds."""
    plain = point.scores.detach()

    def gap(x: Tensor) -> Tensor:
        with same():
            return divergence(f(x), plain).sum()

    delta = perturbation(ascent, point.x.detach(), point.mask, gap)
    with same():
        worst = f(point.x + delta)
    return divergence(worst, point.scores).mean()


@contextmanager
def _untracked(model: MultiTaskModel, task: str) -> Iterator[None]:
    """Keep the running statistics of batch norms as they are: the inputs are perturbed."""
    used = (model.module(owner) for owner in model.owners_of(task))
    norms = [m for module in used for m in module.modules() if isinstance(m, nn.BatchNorm1d)]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True


@contextmanager
def without_dropout(model: MultiTaskModel) -> Iterator[None]:
    """Run the model as in training, with its training poolers, but without dropout."""
    training = model.training
    model.eval()
    for module in model.tasks.values():
        module.training = True  # of itself alone: not ``eval_pooling``
    for module in model.encoder.modules():
        if isinstance(module, BitLinear):
            module.training = True  # at the strength that it has now
    try:
        yield
    finally:
        model.train(training)


def loss_weights(
    config: Config, model: MultiTaskModel, data: Data, device: torch.device
) -> dict[str, float]:
    """Compute the factor on each task's loss: its `loss_weight`, and its normalisation."""
    splits, readers, maskings = data.splits, data.readers, data.maskings
    weights = {name: task.loss_weight for name, task in config.tasks.items()}
    if config.training.loss_normalization == "none":
        return weights
    for name, reader in readers.items():
        if "train" not in splits[name]:
            continue
        train, kind = splits[name]["train"], reader.task_type
        if kind.guess_loss:
            weights[name] /= imported(kind.guess_loss)(train.tokens, maskings.get(name))
            continue
        labels, size = label_tensor(train.rows.gold).to(device), config.tasks[name].batch_size
        try:
            weights[name] /= model.head(name).trivial_loss(labels, len(reader.names), size)
        except ValueError as error:
            path = ("training", "loss_normalization")
            raise config.error(path, f"task {name}: {error}: use none") from error
    return weights
