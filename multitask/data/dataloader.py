"""The batches of one optimizer step: which rows, of which tasks, on which rank."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from multitask.config import Config
from multitask.data.batch_sampler import WINDOW, TaskStream
from multitask.data.collate import Batch, SharedBatch, collate
from multitask.data.masking import Masking
from multitask.data.splits import Data
from multitask.data.tokenize import Tokens
from multitask.tasks.base import TaskType
from multitask.utils import distributed


@dataclass
class Teacher:
    """What a task learns from in addition to its labels.

    Attributes:
        scores: the teacher's scores of the N training rows, float32 [N, K].
        temperature: softens the probabilities.
        weight: the share of the scores in the loss of the next step.
    """

    scores: np.ndarray
    temperature: float
    weight: float = 0.0


@dataclass
class TrainRows:
    """The training rows of one stream.

    Attributes:
        tokens: the tokenized rows, with tags and answers.
        labels: the labels [N] of each task that trains on the rows. A row has a label of at least
            one of the tasks (see ``TaskType.missing``).
        task_types: the type of each of these tasks.
        stream: the batch sampler.
        masking: masks tokens; the labels are then the hidden ids. Each pass over the rows masks
            other tokens. They depend only on the stream's seed and the pass.
        keep_text: with ``masking``, batches also have ``labels`` and the original text.
        teachers: the teacher of each task that has one.
        _masked: a cache: the number of a pass, and its masked tokens.
    """

    tokens: Tokens
    labels: Mapping[str, np.ndarray]
    task_types: Mapping[str, TaskType]
    stream: TaskStream
    masking: Masking | None = None
    keep_text: bool = False
    teachers: dict[str, Teacher] = field(default_factory=dict)
    _masked: tuple[int, Tokens] | None = field(default=None, init=False)

    @property
    def in_tokens(self) -> bool:
        """True if the tokens contain the labels (masked tokens, tags, answers)."""
        return self.in_this_pass().labelled and not self.keep_text

    def in_this_pass(self) -> Tokens:
        """Return the tokens of the current pass, masked if ``masking`` is set."""
        if self.masking is None:
            return self.tokens
        passes = self.stream.passes
        if self._masked is None or self._masked[0] != passes:
            seed = [*self.stream.seeds, passes, 1]
            self._masked = (passes, self.masking.apply(self.tokens, seed))
        return self._masked[1]

    def inputs(self, rows: np.ndarray, pad_id: int) -> Batch:
        """Make a batch of these rows, as the current pass sees them."""
        if not self.keep_text:
            return collate(self.in_this_pass(), rows, pad_id=pad_id)
        masked = collate(self.in_this_pass(), rows, pad_id=pad_id).input_ids
        return replace(collate(self.tokens, rows, pad_id=pad_id), masked_ids=masked)

    def count(self, task: str, rows: np.ndarray) -> int:
        """Count the terms of the mean loss over these rows: rows or tokens with a label."""
        if self.in_tokens:
            return self.in_this_pass().count(rows)
        return int(np.sum(~self.missing(task, rows)))

    def missing(self, task: str, rows: np.ndarray) -> np.ndarray:
        """Return True for each of these rows that has no label of the task."""
        return self.task_types[task].missing(self.labels[task][rows])

    def labelled(
        self, task: str, inputs: Batch, rows: np.ndarray, *, share: float, step_rows: int
    ) -> Batch:
        """Return ``inputs`` with the task's labels for these rows; see ``Batch``."""
        if self.in_tokens:
            return replace(inputs, share=share, step_rows=step_rows)
        labels = self.labels[task][rows]
        if self.task_types[task].compares_rows and not share:  # it counts on another rank
            labels = np.full_like(labels, -1)
        missing = self.missing(task, rows)
        batch = inputs.with_labels(labels, missing, share=share, step_rows=step_rows)
        if teacher := self.teachers.get(task):
            batch.teacher = torch.from_numpy(teacher.scores[rows[~missing]])
            batch.teacher_weight, batch.temperature = teacher.weight, teacher.temperature
        return batch


def train_loaders(
    config: Config, data: Data, generator_maskings: Mapping[str, Masking]
) -> dict[str, TrainRows]:
    """Build a loader for each training set.

    Args:
        config: the run's config.
        data: every task's rows.
        generator_maskings: the masking of each task with a generator; its batches keep the text.
    """
    loaders = {}
    for name, rows in data.training.items():
        task = config.tasks[name]
        budget = None if task.batch_tokens is None else task.batch_tokens // rows.tokens.sides
        # contrastive batches are random: texts of the same length would be harder negatives
        kinds = {member: data.readers[member].task_type for member in rows.labels}
        window = 1 if kinds[name].compares_rows else WINDOW
        sizes = (rows.tokens.lengths, task.batch_size, task.accumulation)
        stream = TaskStream(name, *sizes, config.seed, budget, window)
        masking = {**data.maskings, **generator_maskings}.get(name)
        keep_text = name in generator_maskings
        loaders[name] = TrainRows(rows.tokens, rows.labels, kinds, stream, masking, keep_text)
    return loaders


@dataclass
class MultiTaskLoader:
    """The training batches of all tasks.

    Attributes:
        loaders: the training rows of each stream.
        pad_id: the id of the tokenizer's pad token.
        device: the device of the batches.
    """

    loaders: Mapping[str, TrainRows]
    pad_id: int
    device: torch.device

    @property
    def members(self) -> dict[str, list[str]]:
        """The tasks that train on each stream."""
        return {name: list(loader.labels) for name, loader in self.loaders.items()}

    def next(self, tasks: Sequence[str]) -> list[list[SharedBatch]]:
        """Draw the micro-batches of one optimizer step: the rows of this process, with labels.

        The stream of each of the ``tasks`` advances by one step. Other tasks on these streams are
        left out.
        """
        stream_of = {task: name for name, members in self.members.items() for task in members}
        micro_batches: list[list[SharedBatch]] = []
        for name in dict.fromkeys(stream_of[task] for task in tasks):
            loader = self.loaders[name]
            indices = loader.stream.next()
            step_rows = np.concatenate(indices)
            counts = {
                task: loader.count(task, step_rows) for task in loader.labels if task in tasks
            }
            for number, index in enumerate(indices):
                rows, counted = distributed.shard(index)
                inputs = loader.inputs(rows, self.pad_id)
                if number == len(micro_batches):
                    micro_batches.append([])
                batches = {}
                for task, total in counts.items():
                    if total:
                        share = (loader.count(task, rows) if counted else 0) / total
                        batches[task] = loader.labelled(
                            task, inputs, rows, share=share, step_rows=total
                        )
                if batches:
                    shared = SharedBatch(inputs, batches).to(self.device)
                    micro_batches[number].append(shared)
        return [batches for batches in micro_batches if batches]

    def sample(self, tasks: Sequence[str], seed: Sequence[int]) -> dict[str, Batch]:
        """Draw a random batch for each task. It depends only on ``seed``; no stream advances."""
        batches = {}
        for loader in self.loaders.values():
            for task in loader.labels:
                if task in tasks:
                    rows = np.arange(len(loader.tokens))
                    if not loader.in_tokens:
                        rows = rows[~loader.missing(task, rows)]
                    size = min(loader.stream.batch_size, len(rows))
                    rows = np.random.default_rng(seed).choice(rows, size, replace=False)
                    rows = rows[: loader.stream.fitting(rows)]
                    inputs = loader.inputs(rows, self.pad_id)
                    count = len(rows)
                    batches[task] = loader.labelled(task, inputs, rows, share=1.0, step_rows=count)
        return {task: batches[task].to(self.device) for task in tasks}

    def state_dict(self) -> dict[str, dict[str, int]]:
        return {name: loader.stream.state_dict() for name, loader in self.loaders.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, int]]) -> None:
        for name, loader in self.loaders.items():
            loader.stream.load_state_dict(state[name])
