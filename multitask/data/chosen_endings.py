"""The place of the right one of several endings of a context."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from string import ascii_uppercase
from typing import Any

import numpy as np

from multitask.config import Config
from multitask.data.labels import each_label
from multitask.data.readers.columns import Table
from multitask.tasks.label_reader import LabelReader, canonical, label_text, some_of
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError


def chosen_rows(
    config: Config, task: str, table: Table, rows: Rows, *, split: str, reader: LabelReader
) -> Rows:
    """Add the place of each row's right ending as ``labels``, int64 [N], -1 without one."""
    data, skip = config.tasks[task].data, set(map(canonical, config.tasks[task].data.unlabelled))
    endings = table[data.choices] if isinstance(data.choices, str) else []

    def read(cell: Any, row: int) -> int | None:
        values = reader.task_type.values_in(cell, skip, data.label_separator)
        named = endings[row]["label"] if endings and isinstance(endings[row], dict) else []
        count = len(rows.texts[row]) - 1
        return None if values is None else place_of(values[0], [*map(label_text, named)], count)

    labels = np.full(len(rows), -1)
    for row, place in each_label(data, table, rows, read, split=split):
        labels[row] = place
    return replace(rows, labels=labels)


def place_of(value: str, names: Sequence[str], count: int) -> int:
    """Return the place that a label names, from 0, among ``count`` endings.

    Without ``names`` of the endings, a label is a number from 0 or a letter from A. Raises
    ValueError for any other label.
    """
    numbers, letters = [str(place) for place in range(count)], ascii_uppercase[:count]
    spellings = [[canonical(name) for name in names]] if names else [numbers, [*letters]]
    label = canonical(value)
    for known in spellings:
        if label in known:
            return known.index(label)
    expected = " or ".join(map(some_of, spellings))
    from_0 = "" if names else ": 0 is the first ending"
    raise ValueError(f"is {value!r:.60}: expected one of {expected}{from_0}")


def check_same_number(parts: Mapping[str, Rows]) -> None:
    """Raise UserError if the rows of two splits have different numbers of texts."""
    for first, other in pairwise(parts.values()):
        before, count = len(first.texts[0]), len(other.texts[0])
        if before != count:
            counts = f"{count - 1} endings, but those of {first.source} have {before - 1}"
            raise UserError(f"{other.source}, row 1: its rows have {counts}")
