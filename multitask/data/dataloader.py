"""The batches of one optimizer step: which rows, of which tasks, on which rank."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from multitask.config import Config
from multitask.data.batch_sampler import WINDOW, TaskStream
from multitask.data.collate import Batch, SharedBatch, collate
from multitask.data.masking import Masking
from multitask.data.splits import Data
from multitask.data.tokenize import Tokens
from multitask.tasks.examples import is_missing
from multitask.utils import distributed


@dataclass
class TrainRows:
    """The training rows of one stream.

    ``labels`` holds, for each task that trains on them, the labels [N]; a row may lack one (see
    ``is_missing``), but never all. With ``masking`` the labels are masked tokens instead: others in
    every pass over the rows, a function of the stream's seed and of the pass alone. With
    ``keep_text`` the labels stay, and the masked texts come beside the texts. Tags and answers
    stand in ``tokens``.
    """

    tokens: Tokens
    labels: Mapping[str, np.ndarray]
    stream: TaskStream
    masking: Masking | None = None
    keep_text: bool = False
    _masked: tuple[int, Tokens] | None = field(default=None, init=False)

    @property
    def in_tokens(self) -> bool:
        """Whether the labels stand in the tokens."""
        return self.in_this_pass().labelled and not self.keep_text

    def in_this_pass(self) -> Tokens:
        """The tokens as the pass under way sees them."""
        if self.masking is None:
            return self.tokens
        passes = self.stream.passes
        if self._masked is None or self._masked[0] != passes:
            self._masked = (passes, self.masking.apply(self.tokens, [*self.stream.seed, passes, 1]))
        return self._masked[1]

    def inputs(self, rows: np.ndarray, pad_id: int) -> Batch:
        """The rows as the pass under way sees them, padded."""
        if not self.keep_text:
            return collate(self.in_this_pass(), rows, pad_id=pad_id)
        masked = collate(self.in_this_pass(), rows, pad_id=pad_id).input_ids
        return replace(collate(self.tokens, rows, pad_id=pad_id), masked_ids=masked)

    def count(self, task: str, rows: np.ndarray) -> int:
        """What a mean loss over these rows is a mean over: rows with a label, or tokens."""
        if self.in_tokens:
            return self.in_this_pass().count(rows)
        return int(np.sum(~is_missing(self.labels[task][rows])))

    def labelled(
        self, task: str, inputs: Batch, rows: np.ndarray, share: float, whole: int
    ) -> Batch:
        """``inputs`` with the task's labels of these rows; see ``Batch``."""
        if self.in_tokens:
            return replace(inputs, share=share, step_rows=whole)
        labels = self.labels[task][rows]
        contrastive = labels.ndim == 2 and labels.dtype.kind == "i"
        if contrastive and not share:  # a row that counts on another rank
            labels = np.full_like(labels, -1)
        return inputs.with_labels(labels, share, whole)


def train_loaders(
    config: Config, data: Data, generator_maskings: Mapping[str, Masking]
) -> dict[str, TrainRows]:
    """Build a loader for each training set.

    Args:
        config: the run's config.
        data: every task's rows.
        generator_maskings: how tasks with a generator mask their texts; these keep the text too.
    """
    loaders = {}
    for name, rows in data.training.items():
        task = config.tasks[name]
        budget = None if task.batch_tokens is None else task.batch_tokens // rows.tokens.sides
        # a contrastive batch is a random one: texts of one length are harder negatives than chance
        window = 1 if data.readers[name].task_type.compares_rows else WINDOW
        stream = TaskStream(
            name,
            rows.tokens.lengths,
            task.batch_size,
            task.accumulation,
            seed=config.seed,
            batch_tokens=budget,
            window=window,
        )
        masking = {**data.maskings, **generator_maskings}.get(name)
        keep_text = name in generator_maskings
        loaders[name] = TrainRows(rows.tokens, rows.labels, stream, masking, keep_text=keep_text)
    return loaders


@dataclass
class MultiTaskLoader:
    """The training batches of all tasks.

    Attributes:
        loaders: the training rows of each stream.
        pad_id: the tokenizer's.
        device: where the batches go.
    """

    loaders: Mapping[str, TrainRows]
    pad_id: int
    device: torch.device

    @property
    def members(self) -> dict[str, list[str]]:
        """The tasks that train on each stream."""
        return {name: list(loader.labels) for name, loader in self.loaders.items()}

    def next(self, tasks: Sequence[str]) -> list[list[SharedBatch]]:
        """Return the micro-batches of the next step of these tasks; see ``next_batches``."""
        stream_of = {task: name for name, members in self.members.items() for task in members}
        turns = dict.fromkeys(stream_of[task] for task in tasks)
        return next_batches(self.loaders, turns, tasks, pad_id=self.pad_id, device=self.device)

    def sample(self, tasks: Sequence[str], seed: Sequence[int]) -> dict[str, Batch]:
        """Return a batch of random rows of each task; see ``sampled_batches``."""
        return sampled_batches(
            self.loaders, tasks, seed=seed, pad_id=self.pad_id, device=self.device
        )

    def state_dict(self) -> dict[str, dict[str, int]]:
        return {name: loader.stream.state_dict() for name, loader in self.loaders.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, int]]) -> None:
        for name, loader in self.loaders.items():
            loader.stream.load_state_dict(state[name])


def next_batches(
    feeds: Mapping[str, TrainRows],
    turns: Collection[str],
    tasks: Collection[str],
    *,
    pad_id: int,
    device: torch.device,
) -> list[list[SharedBatch]]:
    """One optimizer step: for each micro-batch, this rank's rows and the tasks with labels there.

    Args:
        feeds: the streams by name.
        turns: streams whose turn it is; each moves on by one step.
        tasks: of the tasks on these streams, those that train.
        pad_id: the tokenizer's.
        device: where the batches go.
    """
    micro_batches: list[list[SharedBatch]] = []
    for name in turns:
        feed = feeds[name]
        indices = feed.stream.next()
        rows = np.concatenate(indices)
        counts = {task: feed.count(task, rows) for task in feed.labels if task in tasks}
        for number, index in enumerate(indices):
            own, counted = distributed.shard(index)
            inputs = feed.inputs(own, pad_id).to(device)
            if number == len(micro_batches):
                micro_batches.append([])
            tasks_here = {}
            for task, whole in counts.items():
                if whole:
                    here = feed.count(task, own) if counted else 0
                    tasks_here[task] = feed.labelled(task, inputs, own, here / whole, whole)
            if tasks_here:
                micro_batches[number].append(SharedBatch(inputs, tasks_here))
    return [batches for batches in micro_batches if batches]


def sampled_batches(
    feeds: Mapping[str, TrainRows],
    tasks: Collection[str],
    *,
    seed: Sequence[int],
    pad_id: int,
    device: torch.device,
) -> dict[str, Batch]:
    """A batch of random training rows of each task; no stream moves. The same for one ``seed``."""
    found = {}
    for feed in feeds.values():
        for task in feed.labels:
            if task in tasks:
                known = np.arange(len(feed.tokens))
                if not feed.in_tokens:
                    known = np.flatnonzero(~is_missing(feed.labels[task]))
                size = min(feed.stream.batch_size, len(known))
                rows = np.random.default_rng(seed).choice(known, size, replace=False)
                rows = rows[: feed.stream.fitting(rows)]
                inputs = feed.inputs(rows, pad_id).to(device)
                found[task] = feed.labelled(task, inputs, rows, 1.0, len(rows))
    return {task: found[task] for task in tasks}
