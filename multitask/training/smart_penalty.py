# Tested by tests/training/test_loss.py
"""SMART's terms of a task's loss (Jiang et al. 2020): smoothness, and closeness to a teacher."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from multitask.config import SmartConfig
from multitask.data.collate import Batch, separate
from multitask.models.encoders.packing import Packing
from multitask.models.multitask_model import Embedded, MultiTaskModel
from multitask.models.noise import without_dropout
from multitask.utils.rng import pack_rng, replayed
from smart.adversarial import perturbation
from smart.divergence import DIVERGENCES

# the terms as the log names them
TERMS = ADVERSARIAL, BREGMAN = "adversarial", "bregman"


def loss_and_terms(
    model: MultiTaskModel,
    task: str,
    batch: Batch,
    settings: SmartConfig,
    *,
    teacher: MultiTaskModel | None,
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
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
        return loss, scores, {name: scores.sum() for name, there in used.items() if there}
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
    return loss, scores, terms


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
