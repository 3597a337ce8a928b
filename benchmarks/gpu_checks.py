"""Checks of our trainer on a device: checkpoints, equal bits, and steps that must not wait."""

import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.our_trainer import Place, Stepper, prepared_run
from benchmarks.trainers import settle
from multitask.training.trainer import Trainer

STEPS = 6  # before the checkpoint, and after it


def started(directory: Path, name: str, run: Path, place: Place) -> Stepper:
    """A trainer at step 0, as a run has it."""
    run.mkdir(exist_ok=True)
    overrides = [f"encoder.name={name}", *place.overrides]
    stepper = Stepper(prepared_run(directory, overrides, device=place.device), run)
    torch.manual_seed(stepper.trainer.plan.config.seed)
    return stepper


def weights(trainer: Trainer) -> dict[str, Tensor]:
    """A copy of the model's weights, on the host."""
    return {name: tensor.cpu().clone() for name, tensor in trainer.model.state_dict().items()}


def timed_checkpoint(trainer: Trainer, device: torch.device) -> str:
    """Save a checkpoint; return its seconds and size in words."""
    settle(device)
    began = time.perf_counter()
    trainer.checkpoints.save(trainer.step)
    seconds = time.perf_counter() - began
    saved = trainer.checkpoints.run.checkpoint(trainer.step)
    size = sum(file.stat().st_size for file in saved.iterdir())
    return f"{seconds:.2f} s, {size / 2**30:.2f} GiB"


def apart(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> str:
    """Say how far two models are from each other."""
    most = max(float((a - other[name]).abs().max()) for name, a in one.items())
    return "the same bits" if most == 0 else f"weights differ by at most {most:.0e}"


def checks(directory: Path, name: str, scratch: Path, place: Place) -> list[list[str]]:
    """A row per check: seconds per checkpoint, two equal runs, a resumed run, waits."""
    first = started(directory, name, scratch / "first", place)
    first.steps(STEPS)
    saved = timed_checkpoint(first.trainer, place.device)
    first.steps(STEPS)
    wanted = weights(first.trainer)
    first.trainer.log.close()
    second = started(directory, name, scratch / "second", place)
    second.steps(2 * STEPS)
    newest = first.trainer.checkpoints.run.saved_checkpoints()[-1]
    resumed = started(directory, name, scratch / "first", place)
    resumed.trainer.checkpoints.restore(newest)
    resumed.steps(STEPS)
    return [
        ["a checkpoint", saved],
        [f"two equal runs of {2 * STEPS} steps", apart(wanted, weights(second.trainer))],
        [f"a run resumed at step {STEPS}", apart(wanted, weights(resumed.trainer))],
        ["forward and backward without a wait", waits(second.trainer, place.device)],
    ]


def waits(trainer: Trainer, device: torch.device) -> str:
    """Say if the host waits for the GPU in a forward and backward pass of each task."""
    if device.type != "cuda":
        return "-"
    torch.cuda.set_sync_debug_mode("error")
    try:
        for task in trainer.active_tasks:
            backward(trainer, task)
    except RuntimeError as error:
        return f"no: {str(error).splitlines()[0]}"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "yes"


def backward(trainer: Trainer, task: str) -> None:
    """Compute a task's gradient, without a step."""
    for shared in trainer.loader.next([task]):
        outcomes = trainer.objective.losses(trainer.model, shared)
        torch.stack([outcome.loss for outcome in outcomes.values()]).sum().backward()
    trainer.model.zero_grad()
