"""The objective of a step: the tasks' losses, and the SMART terms of tasks that have them."""

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
        scores: the head's scores for these rows.
        penalty: the weighted sum of the SMART terms, a scalar; None if this step has none.
    """

    loss: Tensor
    scores: Tensor
    penalty: Tensor | None = None


@dataclass(frozen=True)
class Smoothing:
    """A task's SMART terms.

    Attributes:
        ascent: the gradient ascent that finds the perturbation.
        weight: lambda_s, the weight of the adversarial term.
        bregman: mu, the weight of the term against the momentum teacher.
        perturb: what is perturbed: the "embeddings", or the "pooled" vectors.
        dropout: "same_mask": f(x + delta) has the same dropout masks as f(x). "eval": both run
            without dropout. "independent": each draws its masks.
        every: SMART is applied in every ``every``-th step of the task.
    """

    ascent: Ascent = field(default_factory=Ascent)
    weight: float = 1.0
    bregman: float = 0.0
    perturb: str = "embeddings"
    dropout: str = "same_mask"
    every: int = 1

    def due(self, trained: int) -> bool:
        """Return True if the task's next step, after ``trained`` steps, has SMART terms."""
        return (trained + 1) % self.every == 0 and (self.weight > 0 or self.bregman > 0)


@dataclass(frozen=True)
class Objective:
    """The weighted sum that a step minimises: task losses and SMART terms.

    Attributes:
        weights: the factor on each task's loss and SMART terms.
        smoothing: the SMART terms, by task; tasks without SMART are left out.
        teacher: the momentum teacher of the Bregman terms; None if no task has such a term.
    """

    weights: Mapping[str, float]
    smoothing: Mapping[str, Smoothing] = field(default_factory=dict)
    teacher: MultiTaskModel | None = None

    def due(self, trained: Mapping[str, int]) -> "Objective":
        """Return the objective of the next step: only with the SMART terms that are due then.

        ``trained`` has the number of steps that have trained each task.
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

    Tasks share a forward pass of the encoder where possible (``MultiTaskModel.passes``). A task in
    ``smoothing`` gets a separate pass, and a penalty. With ``apart`` every task gets a separate
    pass. ``teacher`` is the momentum teacher of the Bregman terms.
    """
    smooth = smoothing or {}
    outcomes: dict[str, Outcome] = {}
    tasks = by_task(batches)
    for encoded in model.passes(batches, apart=tasks if apart else smooth):
        first, batch = next(iter(by_task(encoded).items()))
        if first in smooth:
            outcomes[first] = _smoothed(_View(model, first, batch, smooth[first]), teacher)
            continue
        for task, vectors in model.encode(encoded).items():
            scores = _scores(model, task, tasks[task], vectors)
            outcomes[task] = Outcome(_loss(model, task, tasks[task], scores), scores)
    return {task: outcomes[task] for task in tasks}


def weighted(model: MultiTaskModel, task: str, value: Tensor, share: float) -> Tensor:
    """Apply a task's learned loss weight to its part of the objective, if it has one.

    Returns value / (2 exp(s)) + share * s / 2, where s is the learned log variance (Kendall et al.
    2018).
    """
    if task not in model.log_variances:
        return value
    s = model.log_variances[task]
    return value / (2 * s.exp()) + share * s / 2


def learned_weights(model: MultiTaskModel) -> dict[str, float]:
    """Return the factor that ``weighted`` applies to each task; empty if no weight is learned."""
    return {task: 1 / (2 * s.exp().item()) for task, s in model.log_variances.items()}


def _scores(model: MultiTaskModel, task: str, batch: Batch, vectors: Tensor) -> Tensor:
    """Return the head's scores for the labelled rows."""
    scores = model.scores(task, batch, vectors)
    return scores if batch.labelled is None else scores[batch.labelled]


def _loss(model: MultiTaskModel, task: str, batch: Batch, scores: Tensor) -> Tensor:
    loss = model.head(task).loss(scores, batch.labels) if len(scores) else scores.sum()
    if batch.masked_ids is not None:
        loss = loss + model.detection_loss(task, scores, batch)
    return loss


def _smoothed(view: "_View", teacher: MultiTaskModel | None) -> Outcome:
    """Compute a task's loss and SMART penalty; the forward pass of the loss is also f(x).

    Encoder outputs are compared in fp32. In bf16, numbers near 1 have a spacing of 0.004, which is
    too coarse for perturbations of 1e-5.
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
    """The unperturbed input, and its scores.

    Attributes:
        x: the vectors to perturb [S, T, d].
        mask: 1 for tokens, 0 for pads [S, T].
        scores: f(x).
        drawn: the random states before f(x), to draw the same dropout masks again.
    """

    x: Tensor
    mask: Tensor
    scores: Tensor
    drawn: dict[str, Tensor]


@dataclass
class _View:
    """A batch as a function f of the perturbed vectors.

    Attributes:
        model: the model that computes f: the one that trains, or the teacher.
        task: the task whose scores f returns.
        batch: the task's batch.
        settings: the task's SMART terms.
    """

    model: MultiTaskModel
    task: str
    batch: Batch
    settings: Smoothing

    def point(self) -> _Point:
        """Compute the unperturbed x, and f(x)."""
        embedded, mask = self.model.embed(separate({self.task: self.batch}))
        drawn = pack_rng()
        if self.settings.perturb == "embeddings":
            return _Point(embedded, mask, self(embedded), drawn)
        pooled = self._pool(embedded).unsqueeze(1)
        drawn = pack_rng()
        return _Point(pooled, torch.ones_like(mask[:, :1]), self(pooled), drawn)

    def __call__(self, x: Tensor) -> Tensor:
        """Compute f(x): the scores for the rows with a label."""
        vectors = self._pool(x) if self.settings.perturb == "embeddings" else x.squeeze(1)
        return _scores(self.model, self.task, self.batch, vectors)

    def _pool(self, embedded: Tensor) -> Tensor:
        alone, mask = separate({self.task: self.batch}), self.batch.attention_mask
        # perturbed pooled vectors only pass the head, which is in fp32 anyway
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
    """Compute mean_i l_s(f(x_i + delta_i), f(x_i)), a scalar; ``ascent`` finds delta."""
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
    """Freeze the running statistics of batch norms, because the inputs are perturbed."""
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
    """Run the model without dropout, but with the poolers and BitLinear strength of training."""
    training = model.training
    model.eval()
    for module in model.tasks.values():
        module.training = True  # only this flag, not its children: keep the training pooler
    for module in model.encoder.modules():
        if isinstance(module, BitLinear):
            module.training = True  # keep its current strength
    try:
        yield
    finally:
        model.train(training)


def loss_weights(
    config: Config, model: MultiTaskModel, data: Data, device: torch.device
) -> dict[str, float]:
    """Compute the factor on each task's loss from `loss_weight` and `loss_normalization`."""
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
