"""The training loop: steps, stages, evaluation, per-task early stopping, checkpoints."""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from tqdm import tqdm

from multitask.config import TrainingConfig
from multitask.config.run_directory import weights_file
from multitask.data.batch_sampler import TaskStream
from multitask.data.collate import SharedBatch, by_task
from multitask.data.task_sampler import Step
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.weights import write_tensors
from multitask.tasks.metrics import joint
from multitask.training.checkpoint import (
    checkpoints,
    load_checkpoint,
    newest_intact,
    pack_optimizer,
    prune,
    prune_weights,
    save_checkpoint,
    unpack_optimizer,
)
from multitask.training.early_stopping import Selection
from multitask.training.gradient_surgery import Surgery
from multitask.training.loss import Smoothing, learned_weights
from multitask.training.metric_log import Log
from multitask.training.optimizer import encoder_rate
from multitask.training.stages import Stage
from multitask.training.step import Stepped, train_step
from multitask.utils import distributed
from multitask.utils.errors import NotFinite, UserError
from multitask.utils.files import write_text
from multitask.utils.rng import pack_rng, unpack_rng
from multitask.utils.signals import Signals
from smart.teacher import follow

FORMAT = 3  # of a checkpoint's state


class Interrupted(Exception):
    """Ctrl-C or SIGTERM; the state is saved."""


class Measures(Protocol):
    """What a run measures while it trains."""

    @property
    def metrics(self) -> Mapping[str, str]:
        """The metric of each task that counts."""

    @property
    def joint_tasks(self) -> Collection[str]:
        """The tasks whose mean selects."""

    @property
    def split(self) -> str:
        """Where both are measured."""

    def at_start(self, write: Callable[..., None]) -> None:
        """Measure before the first step; ``write`` takes a line of the log."""

    def evaluate(
        self, between_batches: Callable[[], None], write: Callable[..., None]
    ) -> dict[str, dict[str, float]]:
        """Each task's metrics on its split."""

    def train_score(self, task: str, scores: Tensor, labels: Tensor) -> float:
        """A task's metric over rows seen in training."""

    def conflict(self, tasks: Sequence[str], step: int) -> dict[str, dict[str, float]]:
        """Cosines between the gradients of ``tasks``, by pair and layer."""


@dataclass
class Trainer:
    """Everything that a run changes while it trains.

    ``next_batches(turns, tasks)`` gives one step's batches on the device; ``members`` are the tasks
    that train in each stream's turns. ``teacher`` follows the model where a task has a Bregman
    term. ``data`` is a hash of each task's rows. ``before_step(progress)`` is told the share of the
    planned steps that is done.
    """

    run_dir: Path
    model: MultiTaskModel
    settings: TrainingConfig
    stages: Sequence[Stage]
    streams: Mapping[str, TaskStream]
    members: Mapping[str, Sequence[str]]
    next_batches: Callable[[Sequence[str], Sequence[str]], list[list[SharedBatch]]]
    measures: Measures
    selection: Selection
    loss_weights: Mapping[str, float]
    smoothing: Mapping[str, Smoothing]
    teacher: MultiTaskModel | None
    surgery: Surgery | None
    data: Mapping[str, str]
    device: torch.device
    before_step: Callable[[float], None] = lambda progress: None
    say: Callable[[str], None] = tqdm.write

    stage_index: int = 0
    stage_began: int = 0  # the step it began after
    epochs_before: float = 0.0
    step: int = 0
    evaluated_at: int = 0
    saved_at: int = -1
    trained: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    sentences: float = 0  # on this rank
    seconds: float = 0.0
    train_scores: dict[str, float] = field(default_factory=dict)  # of the epoch before

    def __post_init__(self) -> None:
        self.log = Log(self.run_dir / "metrics.jsonl")
        self.interrupted = False
        self.optimizer, self.scheduler = self.stage.begin(self.model)
        self._turns: tuple[int, list[Step]] = (-1, [])
        self._seen: dict[str, list[tuple[Tensor, Tensor]]] = {}  # this epoch's scores and labels
        self._wall_before, self._began = 0.0, time.perf_counter()

    def wall_seconds(self) -> float:
        """Time spent on this run, sessions before a resume included."""
        return self._wall_before + time.perf_counter() - self._began

    @property
    def stage(self) -> Stage:
        """The stage under way."""
        return self.stages[self.stage_index]

    @property
    def total_steps(self) -> int:
        """Planned steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    @property
    def total_epochs(self) -> float:
        """Planned epochs of all stages."""
        return sum(stage.steps / stage.sampler.steps_per_epoch for stage in self.stages)

    @property
    def in_stage(self) -> int:
        """Steps of the stage under way that are done."""
        return self.step - self.stage_began

    @property
    def epoch(self) -> float:
        """Epochs done, with the fraction of the one under way."""
        return self.epochs_before + self.in_stage / self.stage.sampler.steps_per_epoch

    def run(self) -> None:
        """Train from the current step to the end, or until every task has stopped.

        Raises:
            Interrupted: Ctrl-C or SIGTERM, after the state was saved.
            UserError: a loss that is not finite; the last checkpoint is intact.
        """
        self.model.train()
        if self.step == 0:
            self.log.write("plan", step=0, steps=self.total_steps, epochs=self.total_epochs)
            self.measures.at_start(self.log.write)
        hidden = None if distributed.rank() == 0 else True
        bar = tqdm(total=self.total_steps, initial=self.step, unit="step", disable=hidden)
        with Signals(self._interrupt), bar:
            while True:
                if self._evaluation_due():
                    self._evaluate()
                if self.in_stage == self.stage.steps or self._all_stopped():
                    if self.stage_index + 1 == len(self.stages):
                        break
                    self._next_stage()
                bar.set_postfix_str(self.turn(), refresh=False)
                bar.update()
                every = self.settings.checkpoint_steps
                if every and self.step % every == 0:
                    self.save()
                if self._anyone_interrupted():
                    self._stop_interrupted()
        if distributed.rank() == 0:
            prune(self.run_dir / "checkpoints", keep=1)

    def _all_stopped(self) -> bool:
        return all(task in self.selection.stopped for task in self.stage.tasks)

    def _next_stage(self) -> None:
        """Go on to the next stage: new optimizer and schedule, patience and surgery anew."""
        self.epochs_before, self.stage_began = self.epoch, self.step
        self.stage_index += 1
        self.optimizer, self.scheduler = self.stage.begin(self.model)
        self.selection.begin_anew(self.stage.tasks)
        if self.surgery is not None:
            self.surgery.begin_anew()
        self._turns = (-1, [])
        self.train_scores, self._seen = {}, {}
        self.log.write("stage", step=self.step, stage=self.stage.name, tasks=self.stage.tasks)
        self.say(f"stage {self.stage.name}: {', '.join(self.stage.tasks)}")

    def turn(self) -> str:
        """The next step: the tasks whose turn it is; those that have stopped are left out."""
        turns = self._next_turns()
        began = time.perf_counter()
        active = [task for task in self.stage.tasks if task not in self.selection.stopped]
        named = {
            t: turn for turn in turns for t in self.members[turn.task] if t in self.stage.tasks
        }
        tasks = [task for task, turn in named.items() if turn.taken and task in active]
        streams = dict.fromkeys(named[task].task for task in tasks)
        rates = {group["name"]: group["lr"] for group in self.optimizer.param_groups}
        done = Stepped({}, {}, 0.0)
        rows: dict[str, int] = {}
        passes = self.next_batches(list(streams), tasks) if tasks else []
        if passes:
            self.before_step(self.step / self.total_steps)
            try:
                done = train_step(
                    self.model,
                    passes,
                    self.loss_weights,
                    self.optimizer,
                    self.settings.clip_norm,
                    self._watch if self.stage.sampler.needs_scores else lambda *_: None,
                    self._smoothing_due(tasks),
                    self.teacher,
                    self._surgery_due(),
                )
            except NotFinite as problem:
                raise self._diverged(problem) from problem
            for shared in passes:
                self.sentences += sum(len(one.inputs.input_ids) for one in shared)
                rows |= {task: batch.step_rows for task, batch in by_task(shared).items()}
        self.scheduler.step()  # the schedule stays as planned, whatever was left out
        self.step += 1
        if self.teacher is not None and passes:
            follow(self.teacher, self.model, self.step / self.total_steps)
        self.seconds += time.perf_counter() - began
        for task in named:
            if task in done.losses:
                self.trained[task] += 1
                self.log.write(
                    "step",
                    step=self.step,
                    epoch=round(self.epoch, 5),
                    task=task,
                    loss=done.losses[task],
                    lr=encoder_rate(rates),
                    head_lr=rates.get(self.model.owners.get(task, task), 0.0),
                    grad_norm=done.norm,
                    rows=rows[task],
                    **({"penalty": done.penalties[task]} if task in done.penalties else {}),
                )
            else:
                self.skipped[task] += 1
                self.log.write("skip", step=self.step, task=task)
        every = self.settings.conflict_steps
        if every and self.step % every == 0 and len(active) > 1:
            cosines = self.measures.conflict(active, self.step)
            self.log.write("conflict", step=self.step, cosines=cosines)
        shown = "  ".join(f"{task} {loss:.3f}" for task, loss in done.losses.items())
        return f"loss {shown}" if shown else "skipped"

    def _smoothing_due(self, tasks: Sequence[str]) -> dict[str, Smoothing]:
        """SMART's terms of this step."""
        return {
            task: self.smoothing[task]
            for task in tasks
            if task in self.smoothing and self.smoothing[task].due(self.trained[task])
        }

    def _surgery_due(self) -> Surgery | None:
        """Gradient surgery, in its steps of a stage that trains what the tasks share."""
        if self.surgery is None or self.stage.frozen.issuperset(self.model.shared()):
            return None
        return self.surgery if self.surgery.due(self.in_stage) else None

    def _next_turns(self) -> Step:
        """The turns of the next step; at the start of an epoch the sampler plans them."""
        epoch, position = divmod(self.in_stage, self.stage.sampler.steps_per_epoch)
        if self._turns[0] != epoch:
            if position == 0 and epoch > 0 and self.stage.sampler.needs_scores:
                self._close_epoch()
            self._turns = (epoch, self.stage.sampler.turns(epoch, self._stream_scores()))
        return self._turns[1][position]

    def _stream_scores(self) -> dict[str, float]:
        """The lowest training score of the stage's tasks on each stream; -inf: not known."""
        known = {
            task: -math.inf if math.isnan(score) else score
            for task, score in self.train_scores.items()
        }
        return {
            stream: min(known.get(task, -math.inf) for task in tasks)
            for stream, members in self.members.items()
            if (tasks := [task for task in members if task in self.stage.tasks])
        }

    def _watch(self, task: str, scores: Tensor, labels: Tensor) -> None:
        for one in distributed.gather((scores.cpu(), labels.cpu())):
            self._seen.setdefault(task, []).append(one)

    def _close_epoch(self) -> None:
        """The running training score of each task over the epoch that ends."""
        for task, seen in self._seen.items():
            scores, labels = (torch.cat(part) for part in zip(*seen, strict=True))
            self.train_scores[task] = self.measures.train_score(task, scores, labels)
        self._seen = {}
        self.log.write("train_scores", step=self.step, tasks=self.train_scores)

    def _evaluation_due(self) -> bool:
        if self.step == self.evaluated_at:
            return False
        every = self.settings.eval_steps or self.stage.sampler.steps_per_epoch
        return self.in_stage % every == 0 or self.in_stage == self.stage.steps

    def _evaluate(self) -> None:
        """Evaluate every task, keep new bests, stop tasks out of patience, save."""

        def between_batches() -> None:
            if self.interrupted and distributed.world() == 1:  # else after it, all together
                self._stop_interrupted()

        try:
            write = partial(self.log.write, step=self.step)
            found = self.measures.evaluate(between_batches, write)
        except NotFinite as problem:
            raise self._diverged(problem) from problem
        named = self.measures.metrics
        values = {task: metrics[named[task]] for task, metrics in found.items()}
        together = joint({task: values[task] for task in self.measures.joint_tasks})
        counted = {task: v for task, v in values.items() if task in self.selection.patience}
        stopped = self.selection.update(self.step, counted, together, self.stage.tasks)
        self.evaluated_at = self.step
        weights = learned_weights(self.model)
        self.log.write(
            "eval",
            step=self.step,
            epoch=round(self.epoch, 5),
            split=self.measures.split,
            tasks=found,
            joint=together,
            **({"loss_weights": weights} if weights else {}),
        )
        shown = "  ".join(f"{task} {named[task]} {v:.3f}" for task, v in values.items())
        place = f"epoch {self.epoch:.2f}, step {self.step}/{self.total_steps}"
        self.say(f"{place}, {self.measures.split}: {shown}  mean {together:.3f}")
        for task in stopped:
            self.log.write("stop", step=self.step, task=task)
            self.say(f"{task} stops: no gain in {self.selection.patience[task]} evaluations")
        self._keep_best()
        self.save()

    def _keep_best(self) -> None:
        """Write the weights once if this step is the best for any task or for all together."""
        steps = self.selection.best_steps()
        if distributed.rank() > 0:
            return
        if self.step in steps.values():
            file = weights_file(self.run_dir, self.step)
            file.parent.mkdir(exist_ok=True)
            write_tensors(file, self.model.state_dict())
        write_text(self.run_dir / "best.json", json.dumps(steps, indent=1))

    def save(self) -> None:
        """Write a checkpoint of this step and prune what no kept checkpoint refers to."""
        if self.saved_at == self.step and self.evaluated_at != self.step:
            return
        rng = {
            f"{number}.{name}": state
            for number, states in enumerate(distributed.gather(pack_rng()))
            for name, state in states.items()
        }
        (sentences,) = distributed.total([self.sentences], self.device)
        self.saved_at = self.step
        if distributed.rank() > 0:
            return
        optimizer, groups = pack_optimizer(self.optimizer)
        seen = {
            task: [torch.cat(p) for p in zip(*s, strict=True)] for task, s in self._seen.items()
        }
        state = {
            "format": FORMAT,
            "step": self.step,
            "stage": {
                "index": self.stage_index,
                "began": self.stage_began,
                "epochs_before": self.epochs_before,
                "train_scores": self.train_scores,
            },
            "evaluated_at": self.evaluated_at,
            "trained": self.trained,
            "skipped": self.skipped,
            "sentences": sentences,
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
        tensors = {"model": self.model.state_dict(), "optimizer": optimizer, "rng": rng}
        if seen:
            parts = [
                (f"{task}.{i}", part) for task, two in seen.items() for i, part in enumerate(two)
            ]
            tensors["seen"] = dict(parts)
        if self.teacher is not None:
            tensors["teacher"] = self.teacher.state_dict()
        if self.surgery is not None:
            tensors["surgery"] = self.surgery.state_dict()
        save_checkpoint(directory, self.step, tensors, state)
        prune(directory, self.settings.keep_checkpoints)
        prune_weights(self.run_dir, set(self.selection.best_steps().values()))

    def restore(self) -> bool:
        """Go back to the newest intact checkpoint; False when there is none.

        A damaged checkpoint is named and the one before it is used.

        Raises:
            UserError: every checkpoint is damaged, or the data are not those it was made with.
        """
        path = distributed.on_first(lambda: newest_intact(self.run_dir, self.say))
        if path is None:
            return False
        tensors, state = load_checkpoint(path)
        distributed.on_first(lambda: self._check(path, state))
        self._restore(tensors, state)
        return True

    def _check(self, path: Path, state: Mapping[str, Any]) -> None:
        if state.get("format") != FORMAT:
            raise UserError(
                f"{path} was written by another version of this program: finish the run with that "
                "one, or start again with --overwrite"
            )
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

    def _restore(self, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        stage = state["stage"]
        self.stage_index, self.stage_began = stage["index"], stage["began"]
        self.epochs_before, self.train_scores = stage["epochs_before"], stage["train_scores"]
        self.optimizer, self.scheduler = self.stage.begin(self.model)
        self.model.load_state_dict(tensors["model"])
        if self.teacher is not None:
            self.teacher.load_state_dict(tensors["teacher"])
        if self.surgery is not None:
            self.surgery.load_state_dict(tensors["surgery"])
        unpack_optimizer(self.optimizer, tensors["optimizer"], state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        for task, stream in self.streams.items():
            stream.load_state_dict(state["streams"][task])
        self.selection.load_state_dict(state["selection"])
        self.step = self.saved_at = state["step"]
        self.evaluated_at = state["evaluated_at"]
        self.trained, self.skipped = Counter(state["trained"]), Counter(state["skipped"])
        self.sentences = state["sentences"] if distributed.rank() == 0 else 0  # they are added up
        self.seconds = state["seconds"]
        self._wall_before, self._began = state["wall_seconds"], time.perf_counter()
        for name, part in tensors.get("seen", {}).items():
            if name.endswith(".0"):
                task = name.removesuffix(".0")
                self._seen[task] = [(part, tensors["seen"][f"{task}.1"])]
        self.log.truncate(state["log_size"])
        own = f"{distributed.rank()}."  # a rank that was not there before keeps its seed
        states = {n.removeprefix(own): s for n, s in tensors["rng"].items() if n.startswith(own)}
        if states:
            unpack_rng(states)

    def _interrupt(self) -> None:
        if self.interrupted:  # asked twice: stop at once
            raise KeyboardInterrupt
        self.interrupted = True

    def _anyone_interrupted(self) -> bool:
        return distributed.total([float(self.interrupted)], self.device)[0] > 0

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
