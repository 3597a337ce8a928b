"""The batches of one optimizer step: which rows, of which tasks, on which rank."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from multitask import distributed
from multitask.data.collate import Batch, collate
from multitask.data.load import is_missing
from multitask.data.tokenize import Tokens
from multitask.streams import TaskStream


@dataclass
class TrainRows:
    """The training rows of one stream.

    ``labels`` holds, for each task that trains on them, the labels [N]; a row may lack one (see
    ``is_missing``), but never all.
    """

    tokens: Tokens
    labels: Mapping[str, np.ndarray]
    stream: TaskStream


def next_batches(
    feeds: Mapping[str, TrainRows],
    turns: Collection[str],
    tasks: Collection[str],
    *,
    pad_id: int,
    device: torch.device,
) -> list[dict[str, Batch]]:
    """One optimizer step: for each forward pass, this rank's batch of every task with a label.

    Args:
        feeds: the streams by name.
        turns: streams whose turn it is; each moves on by one step.
        tasks: of the tasks on these streams, those that train.
        pad_id: the tokenizer's.
        device: where the batches go.
    """
    passes: list[dict[str, Batch]] = []
    for name in turns:
        feed = feeds[name]
        indices = feed.stream.next()
        rows = np.concatenate(indices)
        labelled = {t: np.sum(~is_missing(feed.labels[t][rows])) for t in feed.labels if t in tasks}
        for number, index in enumerate(indices):
            own, counted = distributed.shard(index)
            inputs = collate(feed.tokens, own, pad_id=pad_id).to(device)
            if number == len(passes):
                passes.append({})
            for task, whole in labelled.items():
                if whole:
                    labels = feed.labels[task][own]
                    here = np.sum(~is_missing(labels)) if counted else 0
                    batch = inputs.with_labels(labels, float(here / whole), int(whole))
                    passes[number][task] = batch
    return [batches for batches in passes if batches]
