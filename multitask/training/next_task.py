"""The tasks' turns: which tasks train in each step. Some samplers use training scores."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from multitask.data.task_sampler import Step
from multitask.training.stages import Stage
from multitask.utils import distributed


@dataclass
class Turns:
    """The turns of a stage: its sampler plans them at the start of each epoch.

    A sampler with ``needs_scores`` receives the training scores of the last epoch. They are
    computed from the outputs of the training steps, which ``watch`` collects.

    Attributes:
        members: the tasks that train in each stream's turns.
        train_score: computes a task's metric from its scores and labels.
        train_scores: each task's training score in the last complete epoch.
    """

    members: Mapping[str, Sequence[str]]
    train_score: Callable[[str, Tensor, Tensor], float]

    def __post_init__(self) -> None:
        self.begin_stage()

    def begin_stage(self) -> None:
        """Forget the turns and scores of the previous stage."""
        # an epoch, and the turns of each of its steps
        self._planned: tuple[int, list[Step]] = (-1, [])
        self._seen: dict[str, list[tuple[Tensor, Tensor]]] = {}  # scores and labels of this epoch
        self.train_scores: dict[str, float] = {}

    def next(self, stage: Stage, taken: int, write: Callable[..., None]) -> dict[str, bool]:
        """Return the tasks of the next turn, after ``taken`` steps of the stage.

        A task maps to False if the sampler leaves it out this time. If the sampler uses training
        scores, ``write`` logs them at the end of an epoch.
        """
        epoch, position = divmod(taken, stage.sampler.steps_per_epoch)
        if self._planned[0] != epoch:
            if position == 0 and epoch > 0 and stage.sampler.needs_scores:
                for task, (scores, labels) in self._joined().items():
                    self.train_scores[task] = self.train_score(task, scores, labels)
                self._seen = {}
                write("train_scores", tasks=self.train_scores)
            self._planned = (epoch, stage.sampler.turns(epoch, self.stream_scores(stage)))
        return {
            task: turn.taken
            for turn in self._planned[1][position]
            for task in self.members[turn.task]
            if task in stage.tasks
        }

    def watch(self, task: str, scores: Tensor, labels: Tensor) -> None:
        """Collect a task's scores and labels of one step, from all processes."""
        for of_rank in distributed.gather((scores.cpu(), labels.cpu())):
            self._seen.setdefault(task, []).append(of_rank)

    def _joined(self) -> dict[str, tuple[Tensor, Tensor]]:
        columns = {task: zip(*seen, strict=True) for task, seen in self._seen.items()}
        return {
            t: (torch.cat(scores), torch.cat(labels)) for t, (scores, labels) in columns.items()
        }

    def stream_scores(self, stage: Stage) -> dict[str, float]:
        """Return the lowest training score of the stage's tasks on each stream; -inf: unknown."""
        by_task = {t: -math.inf if math.isnan(s) else s for t, s in self.train_scores.items()}
        return {
            stream: min(by_task.get(task, -math.inf) for task in tasks)
            for stream, members in self.members.items()
            if (tasks := [task for task in members if task in stage.tasks])
        }

    def state_dict(self) -> dict[str, object]:
        joined = self._joined().items()
        seen = {task: {"scores": scores, "labels": labels} for task, (scores, labels) in joined}
        return {"train_scores": self.train_scores, "seen": seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._planned = (-1, [])
        self.train_scores = dict(state["train_scores"])
        seen = state["seen"].items()
        self._seen = {task: [(columns["scores"], columns["labels"])] for task, columns in seen}
