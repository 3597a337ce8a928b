"""Take one batch of each task forward and backward, to find what training would stumble over."""

import math

import torch
from torch import Tensor

from multitask.data.collate import separate
from multitask.training.build_trainer import objective_of
from multitask.training.setup import Plan
from multitask.utils.errors import UserError, is_out_of_memory, reason_of


def dry_run(plan: Plan) -> list[str]:
    """Return a line per trained task: its rows and loss. The weights stay as they are.

    Raises UserError if a task's modules fail on the batch, or its loss is not finite.
    """
    torch.manual_seed(plan.config.seed)  # the dropout masks
    plan.model.train()
    lines, seen = [], set()
    for stage in plan.stages:
        plan.model.freeze(stage.frozen)
        for task in stage.tasks:
            if task not in seen:
                lines.append(_one_batch(plan, task))
            seen.add(task)
    return lines


def _one_batch(plan: Plan, task: str) -> str:
    batches = plan.loader.sample([task], seed=(plan.config.seed,))
    objective = objective_of(plan)
    try:
        outcome = objective.losses(plan.model, separate(batches))[task]
        loss, penalty = outcome.loss, outcome.penalty
        loss = loss if penalty is None else loss + penalty
        _backward(objective.scaled(loss))
    except (RuntimeError, ValueError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        kind = type(error).__name__
        message = f"one batch forward and backward fails: {kind}: {reason_of(error)}"
        raise UserError(f"task {task}: {message}") from error
    finally:
        plan.model.zero_grad(set_to_none=True)
    value = loss.item()
    if not math.isfinite(value):
        raise UserError(f"task {task}: the loss of one batch is {value}: look at its head and data")
    return f"{task}: {batches[task].rows} rows, loss {value:.3f}"


def _backward(loss: Tensor) -> None:
    """Compute the gradients; a loss without parameters to train has none."""
    if loss.requires_grad:
        loss.backward()
