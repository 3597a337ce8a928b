# Tested by tests/data/test_chosen_endings.py
"""Read the endings of each row: from one column per ending, or from one column of lists.

A list is a list of texts (HellaSwag, RACE), a text with such a list, or
``{"label": [...], "text": [...]}`` (CommonsenseQA), whose labels name the endings.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from multitask.config import DataConfig
from multitask.data.readers.columns import column_named, text_of
from multitask.data.readers.places import place_of
from multitask.data.texts import problem_of
from multitask.tasks.label_reader import is_missing, label_text
from multitask.tasks.list_cells import list_in
from multitask.utils.errors import UserError

FORM = 'expected a list of texts, or {"label": [...], "text": [...]}'


def read_endings(
    data: DataConfig, columns: Mapping[str, list], source: str
) -> list[tuple[str, ...]]:
    """Return the endings of each row.

    Raises UserError, with the row, for an ending that is no text, and for a row with another number
    of endings than the first one.
    """
    rows: list[tuple[str, ...]] = []
    for number, cells in enumerate(_cells(data, columns, source)):
        try:
            endings = _texts(data, cells)
            if len(endings) < 2:
                raise ValueError(f"{len(endings)} endings: a row needs at least two")
            if rows and len(endings) != len(rows[0]):
                raise ValueError(f"{len(endings)} endings, but row 1 has {len(rows[0])}")
        except ValueError as error:
            raise UserError(f"{place_of(columns, number, source)}: {error}") from None
        rows.append(endings)
    return rows


def names_of_endings(data: DataConfig, columns: Mapping[str, list], source: str) -> list[list[str]]:
    """Return the labels that name the endings of each row; empty lists if they have no names."""
    return [
        [label_text(name) for name in cells[0]["label"]] if isinstance(cells[0], dict) else []
        for cells in _cells(data, columns, source)
    ]


def _cells(data: DataConfig, columns: Mapping[str, list], source: str) -> Sequence[tuple[Any, ...]]:
    """Return the cells of each row that hold its endings."""
    named = (column_named(columns, name, "choices", source) for name in data.choice_columns)
    return list(zip(*named, strict=True))


def _texts(data: DataConfig, cells: Sequence[Any]) -> tuple[str, ...]:
    """Return the endings in the cells of a row. Raises ValueError with the column and a reason."""
    if isinstance(data.choices, str):
        values: Sequence[Any] = _listed(cells[0], data.choices)
        names = [f"{data.choices}: ending {place}" for place in range(len(values))]
    else:
        values, names = cells, data.choice_columns
    for name, value in zip(names, values, strict=True):
        if is_missing(value) or isinstance(value, list | dict):
            shown = "null" if is_missing(value) else f"{value!r:.60}"
            raise ValueError(f"{name} is no text: {shown}")
        if problem := problem_of(text_of(value)):
            raise ValueError(f"{name} {problem}")
        if not text_of(value).strip():
            raise ValueError(f"{name} is empty")
    return tuple(map(text_of, values))


def _listed(cell: Any, name: str) -> list[Any]:
    """Return the items of a cell with a list. Raises ValueError for a cell of another form."""
    if isinstance(cell, str):
        try:
            cell = list_in(cell)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    if isinstance(cell, dict):
        texts, labels = cell.get("text"), cell.get("label")
        fits = isinstance(texts, list) and isinstance(labels, list) and len(texts) == len(labels)
        cell = texts if fits else None
    if not isinstance(cell, list):
        raise ValueError(f"{name} has no list: {FORM}")
    return cell
