"""Rows without labels: from a table, a user's file or Python; distinct texts, and samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import TEXT_KEYS, Config, DataConfig, TaskConfig
from multitask.data.inputs.base import Input, Texts, input_of
from multitask.data.readers.columns import Table, read_table, text_of
from multitask.data.readers.text_files import each_line
from multitask.tasks.label_reader import LabelReader, is_missing
from multitask.tasks.list_cells import list_in
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError, warn
from multitask.utils.limits import LONGEST_TEXT

FORM = 'expected a list of texts, or {"label": [...], "text": [...]}'  # of a column of endings


def rows_of(data: DataConfig, table: Table) -> Rows:
    """Convert a table to rows without labels. Raises UserError if a column is missing.

    The texts of a row are those of the columns that ``TEXT_KEYS`` name. With ``choices`` they are
    the context and its endings, each after the text of ``text2``.
    """
    sides = []
    for key in TEXT_KEYS:
        if (name := getattr(data, key)) is None:
            continue
        cells = table.column(name, key)
        if missing := [row for row, cell in enumerate(cells, 1) if is_missing(cell)]:
            what = f"{len(missing):,} without {name} (null), the first one is row {missing[0]:,}"
            warn(f"{table.source}: {what}: an empty text is used")
        texts = []
        for row, cell in enumerate(cells):
            text = cell if isinstance(cell, str) else text_of(cell)
            no_text = isinstance(cell, dict | list)
            if problem := f"is no text: {text[:60]}" if no_text else problem_of(text):
                raise UserError(f"{table.place(row)}: {name} {problem}")
            texts.append(text)
        sides.append(texts)
    if not table.rows:
        raise UserError(f"{table.source}: no rows")
    ids = [str(row) for row in range(table.rows)]
    if data.id is not None:
        ids = [*map(text_of, table.column(data.id, "id"))]
    rows: list[Texts] = list(zip(*sides, strict=True))
    if data.choices is not None:
        rows = [
            (first, *(" ".join([*lead, ending]) for ending in endings))
            for (first, *lead), endings in zip(rows, _endings(data, table), strict=True)
        ]
    return Rows(table.source, ids, rows, None)


def _endings(data: DataConfig, table: Table) -> list[list[str]]:
    """Return the endings of each row, from one column per ending, or from one column of lists.

    A list is a list of texts (HellaSwag, RACE), a text with such a list, or
    ``{"label": [...], "text": [...]}`` (CommonsenseQA). Raises UserError, with the row, for an
    ending that is no text, and for a row with another number of endings than the first one.
    """
    rows: list[list[str]] = []
    columns = [table.column(name, "choices") for name in data.choice_columns]
    for row, cells in enumerate(zip(*columns, strict=True)):
        try:
            endings = [*cells] if isinstance(data.choices, list) else _listed(cells[0])
            for ending in endings:
                if is_missing(ending) or isinstance(ending, list | dict):
                    raise ValueError(f"has an ending that is no text: {ending!r:.60}")
                if problem := problem_of(text_of(ending)):
                    raise ValueError(f"has an ending that {problem}")
                if not text_of(ending).strip():
                    raise ValueError("has an empty ending")
            if len(endings) < 2:
                raise ValueError(f"has {len(endings)} endings: a row needs at least two")
            if rows and len(endings) != len(rows[0]):
                raise ValueError(f"has {len(endings)} endings, but row 1 has {len(rows[0])}")
        except ValueError as error:
            named = ", ".join(data.choice_columns)
            raise UserError(f"{table.place(row)}: {named} {error}") from None
        rows.append([*map(text_of, endings)])
    return rows


def _listed(cell: Any) -> list[Any]:
    """Return the items of a cell with a list. Raises ValueError for a cell of another form."""
    if isinstance(cell, str):
        cell = list_in(cell)
    if isinstance(cell, dict):
        texts, labels = cell.get("text"), cell.get("label")
        fits = isinstance(texts, list) and isinstance(labels, list) and len(texts) == len(labels)
        cell = texts if fits else None
    if not isinstance(cell, list):
        raise ValueError(f"has no list: {FORM}")
    return cell


def problem_of(text: str) -> str:
    """Say why a text cannot be used: it is too long, or no encoding can write it; "" if it can."""
    if len(text) > LONGEST_TEXT:
        return f"has {len(text):,} characters, the most is {LONGEST_TEXT:,}: split it"
    halves = not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)
    return "holds half a character: mend it" if halves else ""


# --- from a user ---


def table_of_file(data: DataConfig, file: Path) -> tuple[DataConfig, Table]:
    """Read a user's file; rows without an id column have numbers. Return how to read it, too."""
    table = read_table(file, data)
    return (data if data.id in table else data.model_copy(update={"id": None})), table


def texts_from_file(task: TaskConfig, file: Path) -> Rows:
    """Read rows without labels from a user's file: a table with the task's columns, or ``.txt``.

    A ``.txt`` file has one text per line, or a pair separated by a tab. The ids are the line
    numbers, from 0. Blank lines are skipped.
    """
    if file.suffix.lower() != ".txt":
        return rows_of(*table_of_file(task.data, file))
    form = input_of(task)
    lines = {number: line for number, line in enumerate(each_line(file)) if line.strip()}
    if not lines:
        raise UserError(f"{file}: no texts")
    places = [f"{file}, line {number + 1}" for number in lines]
    rows = [form.row_of_line(line) for line in lines.values()]
    if None in rows:
        raise UserError(f"{places[rows.index(None)]}: expected {form.line}")
    return Rows(str(file), [*map(str, lines)], _checked([*filter(None, rows)], places), None)


def rows_of_texts(texts: Iterable[Any], form: Input, source: str) -> Rows:
    """Convert what ``form`` takes, such as texts or pairs of texts, to rows without labels.

    Raises UserError for anything else.
    """
    items = listed(texts, form.items, source)
    places = [f"{source}: item {number}" for number in range(len(items))]
    rows = [form.row_of(item) for item in items]
    if None in rows:
        number = rows.index(None)
        shown = " ".join(repr(items[number]).split())  # a table has line breaks
        raise UserError(f"{source} takes {form.items}; item {number} is {shown:.200}")
    ids = [*map(str, range(len(items)))]
    return Rows("texts", ids, _checked([*filter(None, rows)], places), None)


def _checked(rows: list[Texts], places: Sequence[str]) -> list[Texts]:
    """Return the rows. Raises UserError for a text that cannot be used, or another number."""
    for place, texts in zip(places, rows, strict=True):
        if problem := "".join(map(problem_of, texts)):
            raise UserError(f"{place}: a text {problem}")
        if len(texts) != len(rows[0]):
            raise UserError(f"{place}: {len(texts)} texts, the first row has {len(rows[0])}")
    return rows


def listed(items: Iterable[Any], what: str, source: str) -> list[Any]:
    """Return the items of an iterable as ``as_list``. Raises UserError if there are none, too."""
    rows = as_list(items, what, source)
    if not rows:
        raise UserError(f"{source}: expected a list of {what}, not an empty one")
    return rows


def as_list(items: Iterable[Any], what: str, source: str) -> list[Any]:
    """Return the items of an iterable; ``what`` names them in messages.

    Raises UserError for a string, a mapping or a data frame: iterating over them would give
    letters, keys or column names.
    """
    kind = type(items).__name__
    if hasattr(items, "columns") or hasattr(items, "column_names"):
        kind = "a table: pass one of its columns"
    elif not isinstance(items, str | bytes | Mapping) and isinstance(items, Iterable):
        return list(items)
    raise UserError(f"{source}: expected a list of {what}, not {kind}")


# --- tasks without labels ---


def distinct_texts(parts: Iterable[Rows]) -> Rows:
    """Return each distinct text once; the texts of a pair are separate, empty texts are dropped.

    ``labels`` is the number of masked tokens of each text: 0 before masking. Raises UserError if
    no text is left.
    """
    parts = list(parts)
    distinct = dict.fromkeys(text for part in parts for row in part.texts for text in row)
    texts: list[Texts] = [(text,) for text in distinct if text.strip()]
    source = ", ".join(part.source for part in parts)
    if not texts:
        raise UserError(f"{source}: no texts")
    ids = [str(number) for number in range(len(texts))]
    return Rows(source, ids, texts, np.zeros(len(texts), dtype=np.int64))


def unlabelled_rows(config: Config, task: str, parts: Iterable[Rows], reader: LabelReader) -> Rows:
    """Build the rows of a task without labels from ``parts``: its file, or its source tasks.

    The labels of a contrastive task number the texts [N, texts]; equal texts have one number.
    """
    (rows, *others) = parts
    if input_of(config.tasks[task]).texts == 1:
        rows = distinct_texts([rows, *others])
    if not reader.task_type.compares_rows:
        return rows
    keys = [" ".join(text.split()) for row in rows.texts for text in row]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    labels = np.array([numbers[key] for key in keys], dtype=np.int64)
    return replace(rows, labels=labels.reshape(len(rows), -1))


def sample(rows: Rows, size: int | None) -> Rows:
    """Take a random sample of ``size`` rows in file order, the same in every run; None: all."""
    if size is None or size >= len(rows):
        return rows
    taken = rows.take(np.sort(np.random.default_rng(1).permutation(len(rows))[:size]))
    taken.unlabelled_dropped = rows.unlabelled_dropped
    return taken
