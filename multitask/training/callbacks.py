"""Callbacks of the trainer: they log, show progress, or act before a step.

To add one, subclass ``Callback`` here and add a line to the list in
``multitask/training/trainer.py``.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from torch import nn
from tqdm import tqdm

from multitask.data.dataloader import MultiTaskLoader
from multitask.models.encoders.bitlinear import set_strength
from multitask.reporting.table_formats import duration
from multitask.store.saved import RunReport
from multitask.training.gradient_conflict import gradient_cosines
from multitask.training.step import Stepped
from multitask.utils import distributed
from smart.teacher import follow

if TYPE_CHECKING:
    from multitask.training.trainer import Trainer

EVERY = 30  # seconds between two lines


class Evaluation(NamedTuple):
    """The outcome of an evaluation.

    Attributes:
        tasks: all metrics of each task.
        values: each task's value of its selection metric.
        joint: the mean of ``values`` over the tasks that select the weights; tasks without a
            score are left out. NaN if no task has a score.
        stopped: the tasks that stop after this evaluation.
    """

    tasks: Mapping[str, Mapping[str, float]]
    values: Mapping[str, float]
    joint: float
    stopped: Sequence[str]


class Callback:
    """Base class. The trainer calls its callbacks in order; override the methods you need."""

    def on_start(self, trainer: "Trainer") -> None:
        """Called when training starts, or continues after a resume."""

    def before_step(self, trainer: "Trainer") -> None:
        """Called before a step's forward pass, after its batches are drawn; not in empty steps."""

    def on_step(self, trainer: "Trainer", tasks: Sequence[str], result: Stepped) -> None:
        """Called after a step. ``tasks`` had their turn; those without a loss were skipped."""

    def on_evaluation(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        """Called after all tasks were evaluated."""

    def on_end(self, trainer: "Trainer") -> None:
        """Called at the end, also after an error or Ctrl-C (``trainer.finished`` is False then)."""

    def on_report(self, trainer: "Trainer", report: RunReport) -> None:
        """Called after ``on_end`` of a finished training, when its report is written."""


class ProgressBar(Callback):
    """Shows a progress bar on a terminal; elsewhere prints a line every 30 seconds.

    It also prints a line per evaluation.
    """

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.say, self.clock = say, clock
        self.on_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._bar = tqdm(disable=True)
        self._first = self._rows = 0
        self._began = self._printed = 0.0
        self._losses: dict[str, float] = {}
        self._undefined: set[str] = set()

    def on_start(self, trainer: "Trainer") -> None:
        total, taken = trainer.stages.total_steps, trainer.step
        hidden = None if distributed.rank() == 0 else True  # None: tqdm hides it without a terminal
        self._bar = tqdm(total=total, initial=taken, unit="step", disable=hidden)
        self._first, self._rows = taken, 0
        self._began = self._printed = self.clock()

    def on_step(self, trainer: "Trainer", tasks: Sequence[str], result: Stepped) -> None:
        self._bar.set_postfix_str(_shown_losses(result.losses) or "skipped", refresh=False)
        self._bar.update()
        self._rows += sum(result.rows.values())
        self._losses |= result.losses
        now = self.clock()
        if self.on_terminal or now - self._printed < EVERY:
            return
        total, rate = trainer.stages.total_steps, self._rows / (now - self._printed)
        left = (total - trainer.step) * (now - self._began) / (trainer.step - self._first)
        place, losses = f"step {trainer.step}/{total}", _shown_losses(self._losses)
        self.say(f"{place}: {losses}; {rate:.1f} rows/s, {duration(left)} left")
        self._rows, self._printed = 0, now

    def on_evaluation(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        named, split = trainer.measures.metrics, trainer.measures.split
        values = "  ".join(f"{t} {named[t]} {_shown(v)}" for t, v in evaluation.values.items())
        left_out = [t for t in trainer.measures.joint_tasks if math.isnan(evaluation.values[t])]
        mean = _shown(evaluation.joint) + (f" (without {', '.join(left_out)})" if left_out else "")
        place = f"epoch {trainer.epoch:.2f}, step {trainer.step}/{trainer.stages.total_steps}"
        self.say(f"{place}, {split}: {values}  mean {mean}")
        for task in left_out:
            if task not in self._undefined:
                what = f"{task}: {named[task]} is undefined on {split}"
                why = "all its scores, or all labels, are alike"
                self.say(f"warning: {what} ({why}): the mean leaves it out")
        self._undefined.update(left_out)
        for task in evaluation.stopped:
            patience = trainer.selection.early_stopping.patience[task]
            self.say(f"{task} stops: no gain in {patience} evaluations")

    def on_end(self, trainer: "Trainer") -> None:
        self._bar.close()


def _shown_losses(losses: Mapping[str, float]) -> str:
    shown = "  ".join(f"{task} {loss:.3f}" for task, loss in losses.items())
    return f"loss {shown}" if shown else ""


def _shown(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.3f}"


@dataclass
class BitLinearStrength(Callback):
    """Raises the strength of BitLinear's quantisation step by step.

    Attributes:
        models: the model, and the teacher if any, with BitLinear layers wherever they are.
        gradual: the share of steps after which the strength is full.
    """

    models: Sequence[nn.Module]
    gradual: float

    def before_step(self, trainer: "Trainer") -> None:
        for model in self.models:
            set_strength(model, self.gradual, trainer.step / trainer.stages.total_steps)


@dataclass
class MomentumTeacher(Callback):
    """Lets SMART's teacher follow the model after each step that trained something.

    Attributes:
        teacher: a running mean of the model's weights.
    """

    teacher: nn.Module

    def on_step(self, trainer: "Trainer", tasks: Sequence[str], result: Stepped) -> None:
        if result.losses:
            follow(self.teacher, trainer.model, trainer.step / trainer.stages.total_steps)


@dataclass
class GradientConflict(Callback):
    """Logs the cosines between the tasks' gradients every ``every`` steps.

    Attributes:
        loader: the training rows. Each measurement samples rows from it, and does not change the
            batches that training draws.
        comparable: the tasks that can be compared. Contrastive tasks cannot: gradients are measured
            without dropout, so the two views of a text would be equal.
        seed: the seed of the samples.
        every: steps between two measurements.
    """

    loader: MultiTaskLoader
    comparable: Sequence[str]
    seed: int
    every: int

    def on_step(self, trainer: "Trainer", tasks: Sequence[str], result: Stepped) -> None:
        active = trainer.active_tasks
        if trainer.step % self.every or len(active) < 2:
            return
        measured = [task for task in active if task in self.comparable]
        cosines = {}
        if len(measured) > 1:
            batches = self.loader.sample(measured, seed=(self.seed, trainer.step))
            cosines = gradient_cosines(trainer.model, batches)
        trainer.log.write("conflict", step=trainer.step, cosines=cosines)
