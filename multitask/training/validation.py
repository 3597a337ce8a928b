"""Evaluation during training: selection scores, vector space, importance of layers."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from multitask.data.inputs.base import input_of
from multitask.data.tokenize import Split
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
            and plan.data.readers[name].task_type.described_by == "label_range"
        ]

    def at_start(self, write: Callable[..., None]) -> None:
        """Measure before the first step; ``write`` adds a line to the log."""
        if self._followed:
            spaces = {t: self._space(t, self._pooled(t, lambda: None)) for t in self._followed}
            write("space", step=0, tasks=spaces)

    def evaluate(
        self, between_batches: Callable[[], None], write: Callable[..., None]
    ) -> dict[str, dict[str, float]]:
        """Return each task's metrics on its split."""
        plan = self.plan
        results, watched = {}, {}
        for task in self._scored:
            split, space = self._split(task), {}
            pooler = plan.model.module(task).scoring_pooler
            with watched_weights(pooler) as seen:
                if task in self._followed:  # its texts are encoded once, for both
                    pooled = self._pooled(task, between_batches)
                    scores = plan.scorer.score_sides(task, split, pooled)
                    space = self._space(task, pooled)
                else:
                    choose = self._split_name(task) == "holdout" and plan.model.owner(task) == task
                    scores = plan.scorer.score(task, split, between_batches, choose=choose)
            results[task] = measure(scores, split.rows, plan.data.readers[task]) | space
            if weighs_states(pooler):
                name = self._split_name(task)
                watched[task] = {"split": name, **summary(pooler, seen, plan.device)}
        layers = plan.model.encoder.num_layers
        for task, importance in watched.items():
            write("importance", task=task, layers=layers, **importance)
        return results

    def train_score(self, task: str, scores: Tensor, labels: Tensor) -> float:
        """Return a task's selection metric over rows of training steps."""
        predictions, shown = self.plan.model.head(task).predict(scores)
        columns = (labels.numpy(), predictions.numpy(), shown.numpy())
        return metrics.compute(self.plan.data.readers[task].task_type, columns)[self.metrics[task]]

    def _split_name(self, task: str) -> str:
        return "dev" if self.plan.config.tasks[task].evaluate_only else self.split

    def _split(self, task: str) -> Split:
        return self.plan.data.splits[task][self._split_name(task)]

    def _pooled(self, task: str, between_batches: Callable[[], None]) -> Tensor:
        """Return the pooled vectors [T, d] of a task's distinct sequences."""
        return self.plan.scorer.pooled_sides(task, self._split(task).tokens, between_batches)

    def _space(self, task: str, pooled: Tensor) -> dict[str, float]:
        split, reader = self._split(task), self.plan.data.readers[task]
        vectors = self.plan.scorer.compared_vectors(task, pooled)
        rows = zip(split.rows.texts, split.tokens.inputs[1].tolist(), strict=True)
        number = {t: n for texts, numbers in rows for t, n in zip(texts, numbers, strict=True)}
        return pair_space(
            split.rows, lambda texts: vectors[[number[text] for text in texts]], reader.high
        )
