"""One training step, on one screen: losses, gradients, clipping, the optimizer's step."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from multitask.data.collate import SharedBatch, by_task
from multitask.models.multitask_model import MultiTaskModel
from multitask.training.gradient_surgery import Surgery, TaskGradients
from multitask.training.loss import Smoothing, task_losses, weighted
from multitask.utils import distributed
from multitask.utils.errors import NotFinite


class Stepped(NamedTuple):
    """What a step did: each task's mean loss, its mean SMART penalty, the gradient norm."""

    losses: dict[str, float]
    penalties: dict[str, float]
    norm: float


def train_step(
    model: MultiTaskModel,
    micro_batches: Sequence[Sequence[SharedBatch]],
    weights: Mapping[str, float],
    optimizer: torch.optim.Optimizer,
    clip_norm: float | None,
    watch: Callable[[str, Tensor, Tensor], None] = lambda task, scores, labels: None,
    smoothing: Mapping[str, Smoothing] | None = None,
    teacher: MultiTaskModel | None = None,
    surgery: Surgery | None = None,
) -> Stepped:
    """One optimizer step from a few micro-batches, each of rows of one task or several.

    Parameters of other tasks have no gradient (None, not zero), so AdamW leaves them and their
    momentum alone. Raises NotFinite, with the weights untouched, for a loss or gradient that is
    not a finite number.
    """
    losses: dict[str, float] = {}
    penalties: dict[str, float] = {}
    apart = TaskGradients(model.shared()) if surgery else None
    for shared in micro_batches:
        outcomes = task_losses(model, shared, smoothing, teacher, apart=surgery is not None)
        batches, objectives = by_task(shared), {}
        for task, found in outcomes.items():
            share = batches[task].share
            part = found.loss * share
            losses[task] = losses.get(task, 0.0) + part.item()
            if found.penalty is not None:
                penalty = found.penalty * share
                penalties[task] = penalties.get(task, 0.0) + penalty.item()
                part = part + penalty
            objectives[task] = weighted(model, task, weights[task] * part, share)
            counted = slice(None) if share else slice(0)  # share 0: rows of another rank
            watch(task, found.scores.detach()[counted], batches[task].gold[counted])
        if apart is None:
            torch.stack(list(objectives.values())).sum().backward()
        else:
            for task, objective in objectives.items():
                apart.backward(task, objective)
    distributed.add_gradients(_touched(model))
    if apart is not None and surgery is not None:
        apart.sum_over_ranks()
        apart.combine(surgery)
    touched = _touched(model)
    summed = distributed.total([*losses.values(), *penalties.values()], touched[0].device)
    norm = torch.nn.utils.clip_grad_norm_(touched, clip_norm or math.inf).item()
    if not math.isfinite(sum(summed)) or not math.isfinite(norm):
        optimizer.zero_grad(set_to_none=True)
        shown = ", ".join(f"task {t}: loss {v}" for t, v in zip(losses, summed, strict=False))
        raise NotFinite(f"{shown}, gradient norm {norm}")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    means = iter(summed)
    return Stepped(
        {task: next(means) for task in losses}, {task: next(means) for task in penalties}, norm
    )


def _touched(model: MultiTaskModel) -> list[torch.nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.grad is not None]
