"""Evaluation during training: selection scores, vector space, importance of layers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from multitask.data.inputs.base import input_of
from multitask.inference.analysis.layer_weights import summary, watched_weights, weighs_states
from multitask.inference.scoring import measure
from multitask.inference.sts_scores import pair_space
from multitask.tasks import metrics
from multitask.training.setup import Plan


@dataclass
class Monitor:
    """Evaluates all tasks for the trainer.

    Attributes:
        plan: the planned run, with its model, data and metrics.
        metrics: the selection metric of each task.
        split: the split that the tasks are evaluated on.
        joint_tasks: the tasks whose mean selects the joint best step.
    """

    plan: Plan

    def __post_init__(self) -> None:
        plan, tasks = self.plan, self.plan.config.tasks
        trained = plan.config.trained_tasks()
        self.metrics = plan.metrics
        self.split = plan.selection_split
        training = {task for stage in plan.stages for task in stage.tasks}
        readers = {t: reader for t, reader in plan.data.readers.items() if t in training}
        self.joint_tasks = metrics.joint_tasks({t: r.task_type for t, r in readers.items()})
        self._scored = [name for name, t in tasks.items() if t.evaluate_only or not t.only_scored]
        self._followed = [  # tasks of pairs that only score the vectors
            name
            for name in self._scored
            if name not in trained
            and input_of(tasks[name]).compares
            and plan.data.readers[name].task_type.has_range
        ]

    def at_start(self, write: Callable[..., None]) -> None:
        """Measure before the first step; ``write`` adds a line to the log."""
        if self._followed:
            write("space", step=0, tasks={task: self._space(task) for task in self._followed})

    def evaluate(
        self, between_batches: Callable[[], None], write: Callable[..., None]
    ) -> dict[str, dict[str, float]]:
        """Return each task's metrics on its split."""
        plan = self.plan
        results, watched = {}, {}
        for task in self._scored:
            name = self._split_of(task)
            split = plan.data.splits[task][name]
            pooler = plan.model.module(task).scoring_pooler
            with watched_weights(pooler) as seen:
                scores = plan.scorer.score(task, split, between_batches)
            results[task] = measure(scores, split.rows, plan.data.readers[task])
            if weighs_states(pooler):
                watched[task] = {"split": name, **summary(pooler, seen, plan.device)}
            if task in self._followed:
                results[task] |= self._space(task)
        layers = plan.model.encoder.num_layers
        for task, importance in watched.items():
            write("importance", task=task, layers=layers, **importance)
        return results

    def train_score(self, task: str, scores: Tensor, labels: Tensor) -> float:
        """Return a task's selection metric over rows of training steps."""
        predictions, shown = self.plan.model.head(task).predict(scores)
        columns = (labels.numpy(), predictions.numpy(), shown.numpy())
        return metrics.compute(self.plan.data.readers[task].task_type, columns)[self.metrics[task]]

    def _split_of(self, task: str) -> str:
        return "dev" if self.plan.config.tasks[task].evaluate_only else self.split

    def _space(self, task: str) -> dict[str, float]:
        plan = self.plan
        rows = plan.data.splits[task][self._split_of(task)].rows
        max_length = plan.config.tasks[task].max_length
        encode = partial(plan.scorer.vectors, task, max_length=max_length)
        return pair_space(rows, encode, plan.data.readers[task].high)
