"""The training loop: one task a step, evaluation, per-task early stopping, checkpoints."""

import contextlib
import json
import math
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from tqdm import tqdm

from multitask.checkpoint import (
    Damaged,
    checkpoints,
    load_checkpoint,
    pack_optimizer,
    pack_rng,
    prune,
    save_checkpoint,
    unpack_optimizer,
    unpack_rng,
    weights_file,
    write_tensors,
)
from multitask.data.collate import Batch
from multitask.early_stopping import Selection
from multitask.errors import NotFinite, UserError
from multitask.files import without_nan, write_text
from multitask.metrics import joint
from multitask.model import MultiTaskModel
from multitask.objective import task_loss
from multitask.sampler import RoundRobin, TaskStream


class Interrupted(Exception):
    """Ctrl-C or SIGTERM; the state is saved."""


def train_step(
    model: MultiTaskModel,
    task: str,
    batches: Sequence[Batch],
    weight: float,
    optimizer: torch.optim.Optimizer,
    clip_norm: float | None,
) -> tuple[float, float]:
    """One optimizer step of one task; returns its mean loss and the gradient norm.

    Parameters of other tasks have no gradient (None, not zero), so AdamW leaves them and their
    momentum alone. Raises NotFinite, with the weights untouched, for a loss or gradient that is
    not a finite number.
    """
    rows = sum(batch.rows for batch in batches)
    total = 0.0
    for batch in batches:
        loss = task_loss(model, task, batch) * (batch.rows / rows)
        (weight * loss).backward()
        total += loss.item()
    touched = [parameter for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.clip_grad_norm_(touched, clip_norm or math.inf).item()
    if not math.isfinite(total) or not math.isfinite(norm):
        optimizer.zero_grad(set_to_none=True)
        raise NotFinite(f"task {task}: loss {total}, gradient norm {norm}")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total, norm


class Log:
    """``metrics.jsonl``: one JSON object a line, cut back to a checkpoint's length on resume."""

    def __init__(self, file: Path) -> None:
        # unbuffered: a line is in the file or, on a full disk, an error at once
        self._opened = file.open("ab", buffering=0)

    def write(self, event: str, **values: Any) -> None:
        """Append a line; NaN becomes null."""
        line = json.dumps({"event": event, **without_nan(values)}) + "\n"
        self._opened.write(line.encode())

    def size(self) -> int:
        """Bytes that are safely on disk."""
        os.fsync(self._opened.fileno())
        return os.fstat(self._opened.fileno()).st_size

    def truncate(self, size: int) -> None:
        """Forget what was written after ``size`` bytes."""
        self._opened.truncate(size)


@dataclass
class Trainer:
    """Everything that a run changes while it trains.

    ``next_batches(task)`` gives one step's batches on the device; ``evaluate(between_batches)``
    gives each task's metrics on the selection split, of which ``metrics[task]`` is the one that
    counts.
    """

    run_dir: Path
    model: MultiTaskModel
    optimizer: torch.optim.Optimizer
    scheduler: LambdaLR
    sampler: RoundRobin
    streams: Mapping[str, TaskStream]
    next_batches: Callable[[str], list[Batch]]
    evaluate: Callable[[Callable[[], None]], dict[str, dict[str, float]]]
    metrics: Mapping[str, str]
    selection: Selection
    selection_split: str
    loss_weights: Mapping[str, float]
    data: Mapping[str, str]
    total_steps: int
    clip_norm: float | None
    eval_steps: int | None
    checkpoint_steps: int | None
    keep_checkpoints: int
    say: Callable[[str], None] = tqdm.write

    step: int = 0
    evaluated_at: int = 0
    saved_at: int = -1
    trained: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    sentences: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.log = Log(self.run_dir / "metrics.jsonl")
        self.interrupted = False
        self._turns: tuple[int, list[str]] = (-1, [])
        self._wall_before, self._began = 0.0, time.perf_counter()

    def wall_seconds(self) -> float:
        """Time spent on this run, sessions before a resume included."""
        return self._wall_before + time.perf_counter() - self._began

    @property
    def epoch(self) -> float:
        """Epochs done, with the fraction of the one under way."""
        return self.step / self.sampler.steps_per_epoch

    def run(self) -> None:
        """Train from the current step to the end, or until every task has stopped.

        Raises:
            Interrupted: Ctrl-C or SIGTERM, after the state was saved.
            UserError: a loss that is not finite; the last checkpoint is intact.
        """
        self.model.train()
        bar = tqdm(total=self.total_steps, initial=self.step, unit="step", disable=None)
        with _Signals(self), bar:
            while True:
                if self._evaluation_due():
                    self._evaluate()
                if self.step == self.total_steps or self._all_stopped():
                    break
                bar.set_postfix_str(self._turn(), refresh=False)
                bar.update()
                if self.checkpoint_steps and self.step % self.checkpoint_steps == 0:
                    self.save()
                if self.interrupted:
                    self._stop_interrupted()
        prune(self.run_dir / "checkpoints", keep=1)

    def _all_stopped(self) -> bool:
        return all(task in self.selection.stopped for task in self.streams)

    def _turn(self) -> str:
        """The next step: one task's turn, taken or (once the task has stopped) skipped."""
        epoch, position = divmod(self.step, self.sampler.steps_per_epoch)
        if self._turns[0] != epoch:
            self._turns = (epoch, self.sampler.turns(epoch))
        task = self._turns[1][position]
        began = time.perf_counter()
        if task in self.selection.stopped:
            self.step += 1
            self.scheduler.step()  # the schedule stays as planned
            self.skipped[task] += 1
            self.log.write("skip", step=self.step, task=task)
            return f"{task} stopped"
        rates = {group["name"]: group["lr"] for group in self.optimizer.param_groups}
        batches = self.next_batches(task)
        try:
            loss, norm = train_step(
                self.model,
                task,
                batches,
                self.loss_weights[task],
                self.optimizer,
                self.clip_norm,
            )
        except NotFinite as problem:
            raise self._diverged(problem) from problem
        self.scheduler.step()
        self.step += 1
        self.trained[task] += 1
        self.sentences += sum(len(batch.input_ids) for batch in batches)
        self.seconds += time.perf_counter() - began
        self.log.write(
            "step",
            step=self.step,
            epoch=round(self.epoch, 5),
            task=task,
            loss=loss,
            lr=rates.get("encoder", 0.0),
            head_lr=rates.get(task, 0.0),
            grad_norm=norm,
            rows=sum(batch.rows for batch in batches),
        )
        return f"{task} loss {loss:.3f}"

    def _evaluation_due(self) -> bool:
        if self.step == self.evaluated_at:
            return False
        every = self.eval_steps or self.sampler.steps_per_epoch
        return self.step % every == 0 or self.step == self.total_steps

    def _evaluate(self) -> None:
        """Evaluate every task, keep new bests, stop tasks out of patience, save."""

        def between_batches() -> None:
            if self.interrupted:
                self._stop_interrupted()

        try:
            found = self.evaluate(between_batches)
        except NotFinite as problem:
            raise self._diverged(problem) from problem
        values = {task: metrics[self.metrics[task]] for task, metrics in found.items()}
        together = joint(values)
        stopped = self.selection.update(self.step, values, together)
        self.evaluated_at = self.step
        self.log.write(
            "eval",
            step=self.step,
            epoch=round(self.epoch, 5),
            split=self.selection_split,
            tasks=found,
            joint=together,
        )
        shown = "  ".join(f"{task} {self.metrics[task]} {v:.3f}" for task, v in values.items())
        place = f"epoch {self.epoch:.2f}, step {self.step}/{self.total_steps}"
        self.say(f"{place}, {self.selection_split}: {shown}  mean {together:.3f}")
        for task in stopped:
            self.log.write("stop", step=self.step, task=task)
            self.say(f"{task} stops: no gain in {self.selection.patience[task]} evaluations")
        self._keep_best()
        self.save()

    def _keep_best(self) -> None:
        """Write the weights once if this step is the best for any task or for all together."""
        steps = self.selection.best_steps()
        if self.step in steps.values():
            file = weights_file(self.run_dir, self.step)
            file.parent.mkdir(exist_ok=True)
            write_tensors(file, self.model.state_dict())
        write_text(self.run_dir / "best.json", json.dumps(steps, indent=1))

    def save(self) -> None:
        """Write a checkpoint of this step and prune what no kept checkpoint refers to."""
        if self.saved_at == self.step and self.evaluated_at != self.step:
            return
        optimizer, groups = pack_optimizer(self.optimizer)
        state = {
            "step": self.step,
            "evaluated_at": self.evaluated_at,
            "trained": self.trained,
            "skipped": self.skipped,
            "sentences": self.sentences,
            "seconds": self.seconds,
            "wall_seconds": self.wall_seconds(),
            "optimizer": groups,
            "scheduler": self.scheduler.state_dict(),
            "streams": {task: stream.state_dict() for task, stream in self.streams.items()},
            "selection": self.selection.state_dict(),
            "best_steps": self.selection.best_steps(),
            "log_size": self.log.size(),
            "data": self.data,
        }
        directory = self.run_dir / "checkpoints"
        tensors = {"model": self.model.state_dict(), "optimizer": optimizer, "rng": pack_rng()}
        save_checkpoint(directory, self.step, tensors, state)
        self.saved_at = self.step
        prune(directory, self.keep_checkpoints)
        self._prune_weights()

    def _prune_weights(self) -> None:
        wanted = set(self.selection.best_steps().values())
        for path in checkpoints(self.run_dir / "checkpoints"):
            with contextlib.suppress(OSError, ValueError):  # a damaged one refers to nothing
                state = json.loads((path / "state.json").read_text())
                wanted |= set(state["best_steps"].values())
        for file in (self.run_dir / "weights").glob("step-*.safetensors"):
            if int(file.stem.removeprefix("step-")) not in wanted:
                file.unlink()

    def restore(self) -> bool:
        """Go back to the newest intact checkpoint; False when there is none.

        A damaged checkpoint is named and the one before it is used.

        Raises:
            UserError: every checkpoint is damaged, or the data are not those it was made with.
        """
        found = checkpoints(self.run_dir / "checkpoints")
        damaged = []
        for path in reversed(found):
            try:
                tensors, state = load_checkpoint(path)
            except Damaged as problem:
                self.say(f"warning: {problem}; falling back to the checkpoint before it")
                damaged.append(path)
                continue
            self._restore(path, tensors, state)
            for other in damaged:  # out of the way of the checkpoints to come, not deleted
                other.rename(other.with_name(f"damaged-{other.name}"))
            return True
        if found:
            raise UserError(
                f"{self.run_dir}: every checkpoint is damaged: start again with --overwrite"
            )
        return False

    def _restore(self, path: Path, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        changed = [task for task, digest in self.data.items() if state["data"].get(task) != digest]
        if changed:
            raise UserError(
                f"{path}: the data of {', '.join(changed)} are not those the run was started with: "
                "put them back, or choose another output_dir=DIR"
            )
        if self.log.size() < state["log_size"]:
            raise UserError(
                f"{self.run_dir / 'metrics.jsonl'} is shorter than when {path} was saved: put it "
                "back, or choose another output_dir=DIR"
            )
        self.model.load_state_dict(tensors["model"])
        unpack_optimizer(self.optimizer, tensors["optimizer"], state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        for task, stream in self.streams.items():
            stream.load_state_dict(state["streams"][task])
        self.selection.load_state_dict(state["selection"])
        self.step = self.saved_at = state["step"]
        self.evaluated_at = state["evaluated_at"]
        self.trained, self.skipped = Counter(state["trained"]), Counter(state["skipped"])
        self.sentences, self.seconds = state["sentences"], state["seconds"]
        self._wall_before, self._began = state["wall_seconds"], time.perf_counter()
        self.log.truncate(state["log_size"])
        unpack_rng(tensors["rng"])

    def _stop_interrupted(self) -> None:
        self.save()
        raise Interrupted

    def _diverged(self, problem: NotFinite) -> UserError:
        saved = checkpoints(self.run_dir / "checkpoints")
        kept = f"the last good checkpoint is {saved[-1]}" if saved else "no checkpoint yet"
        return UserError(
            f"step {self.step + 1}, {problem}; the run stops, {kept}. Start a new run (another "
            "output_dir=DIR) with a lower `training.lr` or `training.head_lr`, or with "
            "`training.precision=fp32`"
        )


class _Signals:
    """Ctrl-C and SIGTERM ask the loop to save and stop; a second Ctrl-C stops at once."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.before: dict[int, Any] = {}

    def __enter__(self) -> None:
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._ask)
        except ValueError:
            pass  # not the main thread (a notebook's worker): no handlers

    def _ask(self, number: int, frame: Any) -> None:
        if self.trainer.interrupted:
            raise KeyboardInterrupt
        self.trainer.interrupted = True

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
