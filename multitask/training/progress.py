"""The progress of a run: its counters and its current stage."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from multitask.models.multitask_model import MultiTaskModel
from multitask.training.stages import Stage
from multitask.training.step import Stepped
from multitask.utils import distributed


@dataclass
class Progress:
    """Counters of a run.

    Attributes:
        device: the device on which the processes of the run add up their sentences.
        step: optimizer steps taken.
        evaluated_at: the step of the latest evaluation.
        trained: the number of steps that trained each task.
        skipped: the number of steps in which each task had its turn but was left out.
        sentences: sentences that this process has trained on.
        seconds: time spent in steps, without evaluations and checkpoints.
        earlier_seconds: time spent on the run before the last resume.
        began: the clock (`time.perf_counter`) at the start of this command.
    """

    device: torch.device
    step: int = 0
    evaluated_at: int = 0
    trained: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    sentences: float = 0
    seconds: float = 0.0
    earlier_seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    def count(self, turns: Iterable[str], result: Stepped) -> None:
        """Count a step in which the tasks ``turns`` had their turn."""
        self.step += 1
        self.sentences += result.sequences
        for task in turns:
            (self.trained if task in result.losses else self.skipped)[task] += 1

    def wall_seconds(self) -> float:
        """Return the time spent on this run, including the time before a resume."""
        return self.earlier_seconds + time.perf_counter() - self.began

    def all_sentences(self) -> float:
        """Return the sum of the sentences of all processes."""
        return distributed.total([self.sentences], self.device)[0]

    def state_dict(self) -> dict[str, object]:
        return {
            "step": self.step,
            "evaluated_at": self.evaluated_at,
            "trained": dict(self.trained),
            "skipped": dict(self.skipped),
            "sentences": self.all_sentences(),
            "seconds": self.seconds,
            "wall_seconds": self.wall_seconds(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.step, self.evaluated_at = state["step"], state["evaluated_at"]
        self.trained, self.skipped = Counter(state["trained"]), Counter(state["skipped"])
        self.sentences = state["sentences"] if distributed.rank() == 0 else 0  # saved as a sum
        self.seconds = state["seconds"]
        self.earlier_seconds = state["wall_seconds"]


class Stages:
    """The stages of a run; the current one has an optimizer and a learning-rate schedule."""

    def __init__(self, planned: Sequence[Stage], model: MultiTaskModel) -> None:
        self.planned = planned
        self.model = model
        self.index = 0
        self.began_after = 0  # steps of the earlier stages
        self.epochs_before = 0.0
        self._begin()

    def _begin(self) -> None:
        self.optimizer, self.scheduler = self.now.begin(self.model)

    @property
    def now(self) -> Stage:
        """The current stage."""
        return self.planned[self.index]

    @property
    def is_last(self) -> bool:
        """True in the last stage."""
        return self.index + 1 == len(self.planned)

    @property
    def total_steps(self) -> int:
        """Planned steps of all stages."""
        return sum(stage.steps for stage in self.planned)

    @property
    def total_epochs(self) -> float:
        """Planned epochs of all stages."""
        return sum(stage.steps / stage.sampler.steps_per_epoch for stage in self.planned)

    def steps_done(self, step: int) -> int:
        """Return how many of the run's first ``step`` steps the current stage has taken."""
        return step - self.began_after

    def epoch(self, step: int) -> float:
        """Return the epochs done after ``step`` steps, including a fraction of the current one."""
        return self.epochs_before + self.steps_done(step) / self.now.sampler.steps_per_epoch

    def next(self, step: int) -> None:
        """Start the next stage after ``step`` steps, with a new optimizer and schedule."""
        self.epochs_before, self.began_after = self.epoch(step), step
        self.index += 1
        self._begin()

    def state_dict(self) -> dict[str, object]:
        return {
            "index": self.index,
            "began_after": self.began_after,
            "epochs_before": self.epochs_before,
            **self.optimizer.state_dict(),  # "state" and "param_groups"
            "scheduler": self.scheduler.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.index, self.began_after = state["index"], state["began_after"]
        self.epochs_before = state["epochs_before"]
        self._begin()
        moments = {int(number): values for number, values in state["state"].items()}
        self.optimizer.load_state_dict({"state": moments, "param_groups": state["param_groups"]})
        self.scheduler.load_state_dict(state["scheduler"])
