# Tested by tests/data/test_load_rows.py
"""The label of each row of a table."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from multitask.config import DataConfig
from multitask.data.readers.columns import Table
from multitask.tasks.base import TaskType, WordLabels
from multitask.tasks.label_reader import LabelReader, canonical, label_text
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

BITS = {"0": False, "1": True, "false": False, "true": True}


def cell_reader(
    data: DataConfig, task_type: TaskType, classes: Sequence[str] = ()
) -> Callable[[Any], Sequence[str] | None]:
    """Return a function from a cell to its label values without padding; None: no label.

    ``classes`` are the values that a label vector has numbers for. The function raises ValueError
    for a cell of another form.
    """
    skip, padding = set(map(canonical, data.unlabelled)), canonical(data.padding_label)

    def read(cell: Any) -> Sequence[str] | None:
        values = task_type.values_in(cell, skip, data.label_separator)
        if values is None:
            return None
        if data.label_vectors and classes:
            bits = [BITS.get(canonical(value)) for value in values]
            if len(bits) != len(classes) or None in bits:
                expected = f"expected {len(classes)} numbers, 0 or 1: one per class"
                raise ValueError(f"is {cell!r:.60}: {expected}")
            return [value for value, bit in zip(classes, bits, strict=True) if bit]
        if data.padding_label is None:
            return values
        if not isinstance(task_type, WordLabels):
            return [value for value in values if canonical(value) != padding]
        end = len(values)  # of tags only the last ones are padding: it may also be a tag
        while end and canonical(values[end - 1]) == padding:
            end -= 1
        return values[:end]

    return read


def each_label(
    data: DataConfig, table: Table, rows: Rows, read: Callable[[Any, int], Any], *, split: str
) -> Iterator[tuple[int, Any]]:
    """Yield the number and the label of each row that has one.

    ``read`` returns the label in a cell, given with its row, or None. A UserError for its
    ValueError names file, row and column.
    """
    for row, cell in enumerate(table.column(data.label, "label")):
        try:
            label = read(cell, row)
        except ValueError as error:
            hint = _hidden_label(data, cell, split)
            where = f"{table.place(row)} (id {rows.ids[row]})"
            raise UserError(f"{where}: {data.label} {error}{hint}") from None
        if label is not None:
            yield row, label


def _hidden_label(data: DataConfig, cell: Any, split: str) -> str:
    """Return the rest of a message about a label that may mean "no label": -1, or one of a test."""
    items = cell if isinstance(cell, list) else [cell]
    minus_one = {canonical(item) for item in items} == {"-1"}
    if isinstance(cell, dict) or not (split == "test" or minus_one):
        return ""
    if isinstance(cell, list):
        return "; if it means 'no labels', write null instead"
    values = json.dumps([*data.unlabelled, label_text(cell)], ensure_ascii=False)
    return f"; if it means 'no label', set `data.unlabelled: {values}`"


def row_labels(
    data: DataConfig, table: Table, rows: Rows, reader: LabelReader, *, split: str
) -> np.ndarray:
    """Return one label per row: classes, numbers, or any number of classes.

    Missing ones are marked (see ``TaskType.missing``).
    """
    task_type, values_in = reader.task_type, cell_reader(data, reader.task_type, [*reader.ids])
    known: dict[str, Any] = {}  # a few texts are most labels

    def read(cell: Any, row: int) -> Any:
        if isinstance(cell, str) and cell in known:
            return known[cell]
        values = values_in(cell)
        label = None if values is None else task_type.read(values, reader)
        if isinstance(cell, str):
            known[cell] = label
        return label

    labels = task_type.unread(len(rows), reader)
    for row, label in each_label(data, table, rows, read, split=split):
        labels[row] = label
    return labels
