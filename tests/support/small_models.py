"""The model of the three course tasks on a tiny encoder, and batches for it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from multitask.data.collate import Batch, separate
from multitask.models.multitask_model import MultiTaskModel
from tests.conftest import WORDS

D, TASKS = 32, ("sst", "qqp", "sts")
CONTEXT: dict[str, dict[str, Any]] = {
    "sst": {"num_labels": 5, "class_counts": [3, 1, 2, 4, 2], "low": 0.0, "high": 1.0},
    "qqp": {"num_labels": 2, "class_counts": [5, 3], "low": 0.0, "high": 1.0},
    "sts": {"num_labels": 0, "class_counts": [], "low": 0.0, "high": 5.0},
}
WEIGHTS = dict.fromkeys(TASKS, 1.0)
every_task = pytest.mark.parametrize("task", TASKS)


def scores_of(model: MultiTaskModel, task: str, rows: Batch) -> Tensor:
    """One task's scores of its batch alone."""
    return model(separate({task: rows}))[task]


def sentences(rows: int, width: int = 8, padding: int = 0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Token ids and mask of sentences of different lengths."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, width + 1, (rows, 1), generator=generator)
    lengths[0] = width
    mask = (torch.arange(width)[None] < lengths).long()
    ids = torch.randint(5, 5 + len(WORDS), (rows, width), generator=generator) * mask
    pads = torch.zeros(rows, padding, dtype=torch.int64)
    return torch.cat([ids, pads], 1), torch.cat([mask, pads], 1)


def batch(task: str, rows: int = 4, padding: int = 0) -> Batch:
    """A labelled batch of a task; a pair's second texts follow its first."""
    sides = 1 if task == "sst" else 2
    ids, mask = sentences(sides * rows, padding=padding)
    labels = {
        "sst": torch.arange(rows) % 5,
        "qqp": torch.arange(rows) % 2,
        "sts": torch.linspace(0, 5, rows),
    }[task]
    return Batch(ids, mask, torch.zeros_like(ids), labels, sides, pad_id=0)


def parted(undivided: Batch, *sizes: int) -> list[Batch]:
    """The micro-batches of so many rows each that a batch is accumulated from."""
    parts = []
    for rows in torch.arange(undivided.rows).split(sizes):
        places = torch.cat([rows + side * undivided.rows for side in range(undivided.sides)])
        inputs = (undivided.input_ids, undivided.attention_mask, undivided.token_type_ids)
        part = [tensor[places] for tensor in inputs]
        share = len(rows) / undivided.rows
        parts.append(
            Batch(*part, undivided.labels[rows], undivided.sides, undivided.pad_id, share=share)
        )
    return parts
