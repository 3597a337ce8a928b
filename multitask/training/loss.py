"""The objective of a step: the tasks' losses, their weights, and the terms of SMART and R-Drop."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from multitask.config import Config, RDropConfig, SmartConfig
from multitask.data.by_type import reading_of
from multitask.data.collate import Batch, SharedBatch, by_task, label_tensor, separate
from multitask.data.splits import Data
from multitask.models.encoders.packing import Packing
from multitask.models.multitask_model import Embedded, MultiTaskModel
from multitask.models.noise import without_dropout
from multitask.utils.rng import pack_rng, replayed
from smart.adversarial import perturbation
from smart.divergence import DIVERGENCES

# the terms as the log names them
ADVERSARIAL, BREGMAN, CONSISTENCY = "adversarial", "bregman", "consistency"
TERMS = (ADVERSARIAL, BREGMAN, CONSISTENCY)


class Outcome(NamedTuple):
    """A task's losses on a batch.

    Attributes:
        loss: the mean loss over the rows with a label, a scalar in fp32.
        scores: the head's scores for these rows.
        terms: the weighted terms of SMART or R-Drop by name, scalars; None if there are none.
    """

    loss: Tensor
    scores: Tensor
    terms: dict[str, Tensor] | None = None

    @property
    def penalty(self) -> Tensor | None:
        """The sum of the terms, a scalar; None if this step has none."""
        return None if self.terms is None else sum(self.terms.values(), self.loss.new_zeros(()))


@dataclass(frozen=True)
class Objective:
    """The weighted sum that a step minimises: task losses and SMART terms.

    Attributes:
        weights: the factor on each task's loss and SMART terms.
        smart: the settings of SMART, by task; tasks without SMART are left out.
        teacher: the momentum teacher of the Bregman terms; None if no task has such a term.
        scaler: the scale of the sum in fp16; None in other precisions.
        r_drop: the settings of R-Drop, by task.
    """

    weights: Mapping[str, float]
    smart: Mapping[str, SmartConfig] = field(default_factory=dict)
    teacher: MultiTaskModel | None = None
    scaler: GradScaler | None = None
    r_drop: Mapping[str, RDropConfig] = field(default_factory=dict)

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss to differentiate: times the scale in fp16."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def due(self, trained: Mapping[str, int]) -> "Objective":
        """Return the objective of the next step: only with the SMART terms that are due then.

        ``trained`` has the number of steps that have trained each task.
        """
        due = {
            task: settings
            for task, settings in self.smart.items()
            if (trained.get(task, 0) + 1) % settings.every == 0
            and (settings.weight > 0 or settings.bregman > 0)
        }
        return replace(self, smart=due)

    def losses(
        self, model: MultiTaskModel, batches: Sequence[SharedBatch], *, apart: bool = False
    ) -> dict[str, Outcome]:
        """Compute each task's outcome on its batch; the loss is 0 if no row has a label.

        Tasks share a forward pass of the encoder where possible (``MultiTaskModel.passes``). A task
        in ``smart`` or ``r_drop`` gets a separate pass, and a penalty. With ``apart`` every task
        gets a separate pass.
        """
        smart, r_drop = self.smart, self.r_drop
        outcomes: dict[str, Outcome] = {}
        tasks = by_task(batches)
        for encoded in model.passes(batches, apart=tasks if apart else {*smart, *r_drop}):
            first, batch = next(iter(by_task(encoded).items()))
            if first in smart:
                teacher = self.teacher
                outcomes[first] = loss_and_terms(model, first, batch, smart[first], teacher=teacher)
            elif first in r_drop:
                outcomes[first] = loss_and_consistency(model, first, batch, r_drop[first])
            else:
                for task, vectors in model.encode(encoded).items():
                    outcomes[task] = Outcome(*model.loss(task, tasks[task], vectors))
        return {task: outcomes[task] for task in tasks}


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
        if guess_loss := reading_of(kind).guess_loss:
            weights[name] /= guess_loss(train.tokens, maskings.get(name))
            continue
        labels, size = label_tensor(train.rows.gold).to(device), config.tasks[name].batch_size
        try:
            weights[name] /= model.head(name).trivial_loss(labels, len(reader.names), size)
        except ValueError as error:
            path = ("training", "loss_normalization")
            raise config.error(path, f"task {name}: {error}: use none") from error
    return weights


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


# --- R-Drop: two dropout masks should give the same output (Liang et al. 2021) ---


def loss_and_consistency(
    model: MultiTaskModel, task: str, batch: Batch, settings: RDropConfig
) -> Outcome:
    """Compute a task's loss, its scores of the first pass, and its weighted consistency term.

    The rows go twice through one pass of the encoder, with two dropout masks. The loss is the mean
    of both passes' losses. The term is weight (KL(P|Q) + KL(Q|P)) / 2, a mean over the rows: half
    of equation 4, whose alpha is 2 weight. Numbers have their squared difference in place of the
    symmetric divergence.
    """
    both = batch.twice()
    loss, scores = model.loss(task, both, model.encode(separate({task: both}))[task])
    if not len(scores):
        return Outcome(loss, scores, {CONSISTENCY: scores.sum()})
    first, second = scores.chunk(2)
    divergence = DIVERGENCES[model.head(task).divergence](first, second)
    return Outcome(loss, first, {CONSISTENCY: settings.weight / 2 * divergence.mean()})


# --- SMART: smoothness, and closeness to a teacher ---


def loss_and_terms(
    model: MultiTaskModel,
    task: str,
    batch: Batch,
    settings: SmartConfig,
    *,
    teacher: MultiTaskModel | None,
) -> Outcome:
    """Compute a task's loss, its scores f(x), and its weighted SMART terms.

    The terms are ``bregman``, mu times the closeness to the momentum ``teacher``, and
    ``adversarial``, lambda times the smoothness (SMART, sections 3.1 and 3.2). A term without a
    weight is left out. The forward pass of the loss is also f(x). Encoder outputs are compared in
    fp32. In bf16, numbers near 1 have a spacing of 0.004, which is too coarse for perturbations of
    1e-5.
    """
    view = _View(model, task, batch, settings)
    point = view.point()
    loss, scores = point.loss, point.scores
    teacher = teacher if settings.bregman else None
    terms: dict[str, Tensor] = {}
    if not len(scores):  # the same terms as on other ranks
        used = {BREGMAN: teacher is not None, ADVERSARIAL: settings.weight > 0}
        return Outcome(loss, scores, {n: scores.sum() for n, there in used.items() if there})
    divergence = DIVERGENCES[model.head(task).divergence]
    if teacher is not None:
        with torch.no_grad(), without_dropout(teacher):
            slow = replace(view, model=teacher).point(point.embedded.packing).scores
        terms[BREGMAN] = settings.bregman * divergence(scores, slow).mean()
    if settings.weight:
        draws = partial(replayed, point.drawn) if settings.dropout == "same_mask" else nullcontext
        with without_dropout(model) if settings.dropout == "eval" else nullcontext():
            if settings.dropout == "eval":
                point = view.point(point.embedded.packing)
            with _untracked(model, task):
                term = _smoothness(view, point, divergence, draws)
        terms[ADVERSARIAL] = settings.weight * term
    return Outcome(loss, scores, terms)


class _Point(NamedTuple):
    """The unperturbed input, and its scores.

    Attributes:
        embedded: the embedded input; all of x's passes share its packing.
        x: the vectors to perturb [S, T, d].
        mask: 1 for tokens, 0 for pads [S, T].
        loss: the task's loss of f(x).
        scores: f(x).
        drawn: the random states before f(x), to draw the same dropout masks again.
    """

    embedded: Embedded
    x: Tensor
    mask: Tensor
    loss: Tensor
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
    settings: SmartConfig

    def point(self, packing: Packing | None = None) -> _Point:
        """Compute the unperturbed x, and f(x); ``packing`` is that of an earlier point."""
        embedded = self.model.embed(separate({self.task: self.batch}), packing)
        x, mask = embedded.vectors, embedded.mask
        if self.settings.perturb == "pooled":
            x, mask = self._pool(embedded).unsqueeze(1), torch.ones_like(mask[:, :1])
        drawn = pack_rng()
        outcome = self.model.loss(self.task, self.batch, self._pooled(x, embedded))
        return _Point(embedded, x, mask, *outcome, drawn)

    def scores(self, x: Tensor, embedded: Embedded) -> Tensor:
        """Compute f(x): the scores for the rows with a label. ``embedded`` has mask and packing."""
        return self.model.scores(self.task, self.batch, self._pooled(x, embedded))

    def _pooled(self, x: Tensor, embedded: Embedded) -> Tensor:
        perturbs_embeddings = self.settings.perturb == "embeddings"
        return self._pool(embedded._replace(vectors=x)) if perturbs_embeddings else x.squeeze(1)

    def _pool(self, embedded: Embedded) -> Tensor:
        # perturbed pooled vectors only pass the head, which is in fp32 anyway
        only_head = self.settings.perturb == "pooled" and not self.settings.bregman
        batches = separate({self.task: self.batch})
        return self.model.pool(batches, embedded, in_fp32=not only_head)[self.task]


def _smoothness(
    view: _View,
    point: _Point,
    divergence: Callable[[Tensor, Tensor], Tensor],
    draws: Callable[[], AbstractContextManager[Any]],
) -> Tensor:
    """Compute mean_i l_s(f(x_i + delta_i), f(x_i)), a scalar.

    Gradient ascent finds delta. ``draws`` sets the random states for each f.
    """
    plain = point.scores.detach()

    def gap(x: Tensor) -> Tensor:
        with draws():
            return divergence(view.scores(x, point.embedded), plain).sum()

    delta = perturbation(view.settings, point.x.detach(), point.mask, gap)
    with draws():
        worst = view.scores(point.x + delta, point.embedded)
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
