"""One training step: losses, gradients, clipping, the optimizer's step."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from multitask.data.collate import SharedBatch, by_task
from multitask.models.multitask_model import MultiTaskModel
from multitask.training.gradient_surgery import Surgery, TaskGradients
from multitask.training.loss import Objective, Outcome, weighted
from multitask.utils import distributed
from multitask.utils.errors import NotFinite

Watch = Callable[[str, Tensor, Tensor], None]  # (task, scores, labels)


@dataclass
class Stepped:
    """The outcome of a step; empty if nothing was trained.

    Attributes:
        losses: the mean loss of each task that trained.
        penalties: the mean SMART penalty of each task that has one in this step.
        terms: the means of the SMART terms that add up to it, by name.
        norm: the gradient norm before clipping.
        rows: the number of each task's rows with a label, on all processes.
        sequences: the number of texts, or cross-encoded pairs, that this process has encoded.
        interrupted: True if a process of this run has had a signal to stop.
        overflow: the new scale of the loss if this step was skipped in fp16, else None.
    """

    losses: dict[str, float] = field(default_factory=dict)
    penalties: dict[str, float] = field(default_factory=dict)
    terms: dict[str, dict[str, float]] = field(default_factory=dict)
    norm: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)
    sequences: int = 0
    interrupted: bool = False
    overflow: float | None = None


@dataclass
class _Unread:
    """Numbers of a step that are still on the device, for one reading at its end.

    Attributes:
        losses: each task's losses, one per micro-batch: scalars in fp32.
        penalties: each task's SMART penalties, in the same way.
        terms: the terms of these penalties, by task and name.
    """

    losses: dict[str, list[Tensor]] = field(default_factory=dict)
    penalties: dict[str, list[Tensor]] = field(default_factory=dict)
    terms: dict[str, dict[str, list[Tensor]]] = field(default_factory=dict)

    def add(self, task: str, outcome: Outcome, share: float) -> Tensor:
        """Note what a task loses on a micro-batch, and return it with the penalty.

        ``share`` is the micro-batch's share of the task's rows in the step.
        """
        part, penalty = outcome.loss * share, outcome.penalty
        self.losses.setdefault(task, []).append(part)
        if penalty is None or outcome.terms is None:
            return part
        penalty = penalty * share
        self.penalties.setdefault(task, []).append(penalty)
        terms = self.terms.setdefault(task, {})
        for name, term in outcome.terms.items():
            terms.setdefault(name, []).append(term * share)
        return part + penalty

    def numbers(self, interrupted: bool) -> Tensor:
        """Return the sum over the ranks of all numbers, and of ``interrupted``."""
        of_tasks = [
            numbers
            for by_name in (self.losses, self.penalties, *self.terms.values())
            for numbers in by_name.values()
        ]
        parts = torch.stack([number.detach() for numbers in of_tasks for number in numbers])
        return distributed.summed(torch.cat([parts, parts.new_full((1,), float(interrupted))]))

    def read(self, numbers: Sequence[float], result: Stepped) -> None:
        """Add up the numbers of each task in ``result``: losses, penalties and their terms."""
        values = iter(numbers)

        def added(by_name: dict[str, list[Tensor]]) -> dict[str, float]:
            return {name: sum(next(values) for _ in parts) for name, parts in by_name.items()}

        result.losses, result.penalties = added(self.losses), added(self.penalties)
        result.terms = {task: added(terms) for task, terms in self.terms.items()}


def train_step(
    model: MultiTaskModel,
    micro_batches: Sequence[Sequence[SharedBatch]],
    optimizer: torch.optim.Optimizer,
    objective: Objective,
    *,
    clip_norm: float | None = None,
    surgery: Surgery | None = None,
    watch: Watch | None = None,
    interrupted: bool = False,
) -> Stepped:
    """Take one optimizer step on several micro-batches, each with rows of one or more tasks.

    Parameters of other tasks have no gradient (None, not zero), so AdamW changes neither them nor
    their momentum. ``watch`` receives each task's scores and labels. ``interrupted`` says that this
    process has had a signal; the result says it of all processes.

    The host waits for the device once, after the optimizer's launch, and once more with surgery.
    So the optimizer itself leaves the weights as they are if a number is not finite. In fp16 a step
    whose gradient overflows is skipped.

    Raises:
        NotFinite: a loss is not a finite number, or the gradient is not, in fp16 at a scale below
            1; the weights are untouched.
    """
    result, unread, scaler = Stepped(), _Unread(), objective.scaler
    apart = TaskGradients(model.shared()) if surgery else None
    for shared in micro_batches:
        batches, objectives = by_task(shared), dict[str, Tensor]()
        result.sequences += sum(len(batch.inputs.input_ids) for batch in shared)
        result.rows |= {task: batch.step_rows for task, batch in batches.items()}
        for task, outcome in objective.losses(model, shared, apart=surgery is not None).items():
            share = batches[task].share
            part = objective.weights[task] * unread.add(task, outcome, share)
            objectives[task] = weighted(model, task, part, share)
            if watch is not None:
                counted = slice(None) if share else slice(0)  # 0: they count on another rank
                watch(task, outcome.scores.detach()[counted], batches[task].gold[counted])
        if apart is None:
            objective.scaled(torch.stack(list(objectives.values())).sum()).backward()
        else:
            for task, value in objectives.items():
                apart.backward(task, objective.scaled(value))
    distributed.add_tensors([p.grad for p in model.parameters() if p.grad is not None])
    if apart is not None and surgery is not None:
        apart.combine(surgery)
    if scaler is not None:
        scaler.unscale_(optimizer)
    sums = unread.numbers(interrupted)
    touched = [parameter for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.clip_grad_norm_(touched, clip_norm or math.inf)
    numbers = torch.cat([sums, norm.to(sums.dtype)[None]])
    # a fused AdamW reads this on the device, as for torch.amp, and does not step if it is 1
    if getattr(optimizer, "_step_supports_amp_scaling", False):
        optimizer.found_inf = (~numbers.isfinite()).any().float()  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if scaler is not None:
        scaler.update()
    *values, stops, result.norm = numbers.tolist()
    unread.read(values, result)
    result.interrupted = stops > 0
    _check_finite(result, values, scaler)
    return result


def _check_finite(
    result: Stepped, values: Sequence[float], scaler: torch.amp.GradScaler | None
) -> None:
    """Raise NotFinite if the run has diverged; an overflow of fp16 is noted, not raised."""
    finite = all(map(math.isfinite, values))
    if finite and math.isfinite(result.norm):
        return
    if finite and scaler is not None:
        result.overflow, result.norm = scaler.get_scale(), math.nan
        if result.overflow >= 1:
            return
    shown = ", ".join(f"task {task}: loss {loss}" for task, loss in result.losses.items())
    raise NotFinite(f"{shown}, gradient norm {result.norm}")
