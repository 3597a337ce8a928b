"""One training step: losses, gradients, clipping, the optimizer's step."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from multitask.data.collate import SharedBatch, by_task
from multitask.models.multitask_model import MultiTaskModel
from multitask.training.gradient_surgery import Surgery, TaskGradients
from multitask.training.loss import Objective
from multitask.training.loss_weights import weighted
from multitask.utils import distributed
from multitask.utils.errors import NotFinite


@dataclass
class Stepped:
    """The outcome of a step; empty if nothing was trained.

    Attributes:
        losses: the mean loss of each task that trained.
        penalties: the mean SMART penalty of each task that has one in this step.
        norm: the gradient norm before clipping.
        rows: the number of each task's rows with a label, on all processes.
        sequences: the number of texts, or cross-encoded pairs, that this process has encoded.
    """

    losses: dict[str, float] = field(default_factory=dict)
    penalties: dict[str, float] = field(default_factory=dict)
    norm: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)
    sequences: int = 0


def train_step(
    model: MultiTaskModel,
    micro_batches: Sequence[Sequence[SharedBatch]],
    optimizer: torch.optim.Optimizer,
    objective: Objective,
    *,
    clip_norm: float | None = None,
    surgery: Surgery | None = None,
    watch: Callable[[str, Tensor, Tensor], None] | None = None,
) -> Stepped:
    """Take one optimizer step on several micro-batches, each with rows of one or more tasks.

    Parameters of other tasks have no gradient (None, not zero), so AdamW changes neither them nor
    their momentum. ``watch`` receives each task's scores and labels.

    Raises:
        NotFinite: a loss or the gradient is not a finite number; the weights are untouched.
    """
    result = Stepped()
    apart = TaskGradients(model.shared()) if surgery else None
    for shared in micro_batches:
        result.sequences += sum(len(batch.inputs.input_ids) for batch in shared)
        outcomes = objective.losses(model, shared, apart=surgery is not None)
        batches, objectives = by_task(shared), {}
        for task, outcome in outcomes.items():
            share = batches[task].share
            part = outcome.loss * share
            result.losses[task] = result.losses.get(task, 0.0) + part.item()
            result.rows[task] = batches[task].step_rows
            if outcome.penalty is not None:
                penalty = outcome.penalty * share
                result.penalties[task] = result.penalties.get(task, 0.0) + penalty.item()
                part = part + penalty
            objectives[task] = weighted(model, task, objective.weights[task] * part, share)
            if watch is not None:
                counted = slice(None) if share else slice(0)  # share 0: they count on another rank
                watch(task, outcome.scores.detach()[counted], batches[task].gold[counted])
        if apart is None:
            torch.stack(list(objectives.values())).sum().backward()
        else:
            for task, value in objectives.items():
                apart.backward(task, value)
    distributed.add_gradients(_touched(model))
    if apart is not None and surgery is not None:
        apart.sum_over_ranks()
        apart.combine(surgery)
    touched = _touched(model)
    sums = [*result.losses.values(), *result.penalties.values()]
    means = iter(distributed.total(sums, touched[0].device))
    result.losses = {task: next(means) for task in result.losses}
    result.penalties = {task: next(means) for task in result.penalties}
    result.norm = torch.nn.utils.clip_grad_norm_(touched, clip_norm or math.inf).item()
    numbers = [*result.losses.values(), *result.penalties.values(), result.norm]
    if not all(map(math.isfinite, numbers)):
        optimizer.zero_grad(set_to_none=True)
        shown = ", ".join(f"task {task}: loss {loss}" for task, loss in result.losses.items())
        raise NotFinite(f"{shown}, gradient norm {result.norm}")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return result


def _touched(model: MultiTaskModel) -> list[torch.nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.grad is not None]
