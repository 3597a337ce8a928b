"""Rows of a context with several endings, and the place of the right one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from string import ascii_uppercase
from typing import Any

from multitask.config import Config
from multitask.data.load_rows import hidden_label, rows_of, without
from multitask.data.readers.columns import column_of, read_columns
from multitask.data.readers.endings import names_of_endings
from multitask.data.readers.places import place_of as place_of_row
from multitask.tasks.label_reader import LabelReader, canonical, some_of
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError, warn

# the end of a message about a file in which no label is 0
FROM_ONE = ": labels count from 0, so that 0 is the first ending; subtract 1 if they count from 1"


def chosen_rows(config: Config, task: str, split: str, reader: LabelReader) -> Rows:
    """Read a split; drop and count rows without a label.

    ``labels`` has the place of the right ending, int64 [N]. A test split may have no labels. Raises
    UserError with file and row if a label names none of the endings, and warns if no label of the
    file is 0: they may count from 1.
    """
    data = config.tasks[task].data
    columns, source = read_columns(config, task, split)
    rows = rows_of(data, columns, source)
    if split == "test" and data.label not in columns:
        return rows
    skip = set(map(canonical, data.unlabelled))
    labels = reader.task_type.unread(len(rows), reader)
    names = names_of_endings(data, columns, source)
    cells = column_of(columns, data, "label", source)
    without_0 = not any(names) and _has_no_0(cells)
    for i, cell in enumerate(cells):
        try:
            values = reader.task_type.values_in(cell, skip, data.label_separator)
            if values is not None:
                labels[i] = place_of(values[0], names[i], len(rows.texts[i]) - 1)
        except ValueError as error:
            where = f"{place_of_row(columns, i, source)} (id {rows.ids[i]})"
            last = canonical(cell) == str(len(rows.texts[i]) - 1)
            hint = FROM_ONE if without_0 and last else hidden_label(data, cell, split)
            raise UserError(f"{where}: {data.label} {error}{hint}") from None
    if without_0:
        warn(f"{source}: {data.label} is never 0{FROM_ONE}")
    missing = labels < 0
    if split == "test" and missing.any():
        return rows  # a test split to predict
    return without(missing, replace(rows, labels=labels))


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
    raise ValueError(f"is {value!r:.60}: expected one of {' or '.join(map(some_of, spellings))}")


def _has_no_0(cells: Sequence[Any]) -> bool:
    """Return True if some labels of a file are numbers and none is 0."""
    labels = set(map(canonical, cells))
    return "0" not in labels and any(map(str.isdecimal, labels))


def check_same_number(parts: Mapping[str, Rows]) -> None:
    """Raise UserError if the rows of two splits have different numbers of texts."""
    for first, other in pairwise(parts.values()):
        before, count = len(first.texts[0]), len(other.texts[0])
        if before != count:
            counts = f"{count - 1} endings, but those of {first.source} have {before - 1}"
            raise UserError(f"{other.source}, row 1: its rows have {counts}")
