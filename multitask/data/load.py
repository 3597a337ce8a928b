"""Rows of a task from CSV, TSV, JSON lines, Parquet, a saved `datasets` directory or the hub.

Columns are found by name, labels are mapped and checked row by row, rows without a label are
dropped and counted.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import TEXT_KEYS, Config, DataConfig
from multitask.config.registry import resolve
from multitask.data.readers.columns import canonical, column_of, read_columns, text_of
from multitask.data.readers.tables import read_text, table_of
from multitask.tasks.examples import LabelReader, Rows, is_missing
from multitask.tasks.metric_names import UNLABELLED
from multitask.tasks.token_classification import check_tags
from multitask.utils.errors import UserError

# label types without classes or a range, and what their heads do
WITHOUT_CLASSES = {
    "tokens": "predicts masked tokens: it has no labels",
    "views": "compares texts: it has no labels",
    "span": "predicts where an answer stands: it has no classes",
}


def label_readers(config: Config) -> dict[str, LabelReader]:
    """Return each task's label reader, for its head's kind of labels; see ``label_reader``."""
    return {
        task: label_reader(config, task, resolve("head", entry.head.name).label_type)
        for task, entry in config.tasks.items()
    }


def label_reader(config: Config, task: str, label_type: str) -> LabelReader:
    """The label reader of a task for a head of ``label_type``.

    Class labels come from ``data.labels`` or, where it is absent, from the sorted values of the
    training file (0 and 1, or false and true, for binary heads). Raises UserError where the
    config does not fit.
    """
    data = config.tasks[task].data
    path = ("tasks", task, "data")
    if label_type in WITHOUT_CLASSES:
        for key in ("labels", "label_range"):
            if getattr(data, key) is not None:
                message = f"the head {WITHOUT_CLASSES[label_type]}"
                raise config.error((*path, key), message)
        return LabelReader(label_type, {}, ())
    if label_type == "number":
        if data.label_range is None:
            message = "a head that predicts numbers needs `label_range: [low, high]`"
            raise config.error((*path, "label_range"), message)
        low, high = data.label_range
        return LabelReader(label_type, {}, (), low, high)
    if data.label_range is not None:
        raise config.error(
            (*path, "label_range"), "the head predicts classes: give `labels`, not a range"
        )
    mapping = data.labels
    if mapping is None and label_type == "binary":
        mapping = {"0": "0", "1": "1", "false": "0", "true": "1"}
    elif mapping is None:
        mapping = {value: value for value in _label_values(config, task, label_type)}
    names = tuple(dict.fromkeys(mapping.values()))
    if label_type == "binary" and len(names) != 2:
        raise config.error((*path, "labels"), f"the head takes 2 classes, not {len(names)}")
    ids = {canonical(value): names.index(name) for value, name in mapping.items()}
    if len(ids) < len(mapping):
        message = f"two of the keys {', '.join(mapping)} are the same value"
        raise config.error((*path, "labels"), message)
    if label_type == "tags":
        with config.errors_at((*path, "labels")):
            check_tags(names, data.tag_scheme)
        return LabelReader(label_type, ids, names, scheme=data.tag_scheme)
    return LabelReader(label_type, ids, names)


def _label_values(config: Config, task: str, label_type: str) -> list[str]:
    if config.tasks[task].only_scored:  # no training rows of its own
        task = config.tasks[task].share_head or task
    data = config.tasks[task].data
    columns, source = read_columns(config, task, "train")
    skip = set(map(canonical, data.unlabelled))
    cells = column_of(columns, data, "label", source)
    wrong = [isinstance(cell, list | dict) for cell in cells]
    if label_type not in ("labels", "tags") and any(wrong):
        message = f"{data.label} is a list or an object: this head takes one label a row"
        raise UserError(f"{source}, row {wrong.index(True) + 1}: {message}")
    if label_type == "labels":
        cells = [class_values(cell, data) or [] for cell in cells]
    every = (v for cell in cells for v in (cell if isinstance(cell, list) else [cell]))
    values = {canonical(value) for value in every} - skip
    if not cells:
        raise UserError(f"{source}: no rows")
    if len(values) < 2:
        found = ", ".join(sorted(values)) or "none"
        message = f"column {data.label!r} must hold two labels at least, found: {found}"
        raise UserError(f"{source}: {message}; `data.label` names it, `data.labels` its values")
    return sorted(values, key=lambda value: (_number(value), value))


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return math.inf


def load_rows(config: Config, task: str, split: str, reader: LabelReader) -> Rows:
    """The rows of a split, labels mapped, unlabelled rows dropped and counted.

    For a reader of "tokens" or "views" there are no labels; a test split may lack them. Raises
    UserError with file and row for a label that is not among the classes or in the range, and for a
    missing file or column or an empty split.
    """
    data = config.tasks[task].data
    columns, source = read_columns(config, task, split)
    rows = rows_of(data, columns, source)
    if reader.label_type in UNLABELLED:
        return rows
    if split == "test" and data.label not in columns:
        return rows
    rows.labels = _labels(data, columns, rows, reader)
    if split == "test" and is_missing(rows.labels).any():
        rows.labels = None  # a test file with a (partly) blank label column is to be predicted
        return rows
    return labelled_only(rows)


def labelled_only(rows: Rows) -> Rows:
    """The rows that have a label; the others are counted. Raises UserError where none has."""
    missing = is_missing(rows.gold)
    if missing.all():
        raise UserError(f"{rows.source}: no labelled rows ({len(rows)} without a label)")
    kept = rows.take(np.flatnonzero(~missing))
    kept.unlabelled_dropped = rows.unlabelled_dropped + int(missing.sum())
    return kept


def load_together(
    config: Config, tasks: Sequence[str], split: str, readers: Mapping[str, LabelReader]
) -> dict[str, Rows]:
    """The rows of tasks that share them: one list of rows, and each task's labels.

    Rows without any label are left out, and counted; a label that is missing beside others is
    marked (see ``is_missing``).
    """
    columns, source = read_columns(config, tasks[0], split)
    rows = rows_of(config.tasks[tasks[0]].data, columns, source)
    labels = {t: _labels(config.tasks[t].data, columns, rows, readers[t]) for t in tasks}
    kept = np.flatnonzero(~np.all([is_missing(found) for found in labels.values()], axis=0))
    if not len(kept):
        raise UserError(f"{source}: no labelled rows ({len(rows)} without a label)")
    dropped = len(rows) - len(kept)
    rows = replace(rows.take(kept), unlabelled_dropped=dropped)
    return {task: replace(rows, labels=found[kept]) for task, found in labels.items()}


def _labels(data: DataConfig, columns: dict, rows: Rows, reader: LabelReader) -> np.ndarray:
    """Every row's label, marked where it is missing."""
    if reader.label_type == "labels":
        return _several_labels(data, columns, rows, reader)
    unlabelled = set(map(canonical, data.unlabelled))
    values = [canonical(value) for value in column_of(columns, data, "label", rows.source)]
    number = reader.label_type == "number"
    labels = np.full(len(values), np.nan) if number else np.full(len(values), -1, dtype=np.int64)
    for i, value in enumerate(values):
        if value not in unlabelled:
            try:
                labels[i] = reader.read(value)
            except ValueError as error:
                where = f"{rows.source}, row {i + 1} (id {rows.ids[i]})"
                raise UserError(f"{where}: {data.label} is {value!r}: {error}") from None
    return labels


def class_values(cell: Any, data: DataConfig) -> list[str] | None:
    """The classes that a cell names, of several at once; None where it is without label.

    A list, or a text that is cut at ``data.label_separator``.
    """
    if isinstance(cell, list):
        return [canonical(value) for value in cell]
    text = canonical(cell)
    if cell is None or text in set(map(canonical, data.unlabelled)):
        return None
    return [canonical(part) for part in str(cell).split(data.label_separator) if part.strip()]


def _several_labels(data: DataConfig, columns: dict, rows: Rows, reader: LabelReader) -> np.ndarray:
    """Every row's classes, 0/1 [N, C]; NaN where it has no label."""
    labels = np.full((len(rows), len(reader.names)), np.nan)
    for i, cell in enumerate(column_of(columns, data, "label", rows.source)):
        values = class_values(cell, data)
        if values is None:
            continue
        labels[i] = 0
        for value in values:
            try:
                labels[i, int(reader.read(value))] = 1
            except ValueError as error:
                where = f"{rows.source}, row {i + 1} (id {rows.ids[i]})"
                raise UserError(f"{where}: {data.label} names {value!r}: {error}") from None
    return labels


def texts_from_file(data: DataConfig, file: Path) -> Rows:
    """Rows without labels from a file of one's own: a table with the task's columns, or ``.txt``
    with one text a line (a pair is separated by a tab), whose ids are the lines, from 0; blank
    ones are left out."""
    if file.suffix == ".txt":
        ids, texts = [], []
        sides = 1 + bool(data.text2) + bool(data.text3)
        for number, line in enumerate(read_text(file).split("\n"), 1):
            if not line.strip():
                continue
            text = tuple(line.split("\t"))
            if len(text) != sides:
                what = "one text, without a tab"
                if sides > 1:
                    what = f"{'two' if sides == 2 else 'three'} texts with a tab between"
                raise UserError(f"{file}, line {number}: expected {what}")
            ids.append(str(number - 1))
            texts.append(text)
        if not texts:
            raise UserError(f"{file}: no texts")
        return Rows(str(file), ids, texts, None)
    columns = table_of(data, file)
    return rows_of(ids_if_any(data, columns), columns, str(file))


def ids_if_any(data: DataConfig, columns: Mapping[str, list]) -> DataConfig:
    """``data`` for a table of one's own, which need not have ids: rows then go by their number."""
    return data if data.id in columns else data.model_copy(update={"id": None})


def rows_of(data: DataConfig, columns: dict[str, list], source: str) -> Rows:
    """The texts and ids of a table, without labels. Raises UserError for a missing column."""
    keys = [key for key in TEXT_KEYS["triplet"] if getattr(data, key) is not None]
    sides = []
    for key in keys:
        name, texts = getattr(data, key), []
        for number, value in enumerate(column_of(columns, data, key, source), 1):
            text, problem = text_of(value), None
            if isinstance(value, dict | list):
                problem = f"is no text: {text[:60]}"
            elif not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
                problem = "holds half a character: mend it"
            if problem:
                raise UserError(f"{source}, row {number}: {name} {problem}")
            texts.append(text)
        sides.append(texts)
    if not sides[0]:
        raise UserError(f"{source}: no rows")
    if data.id is None:
        ids = [str(i) for i in range(len(sides[0]))]
    else:
        ids = [text_of(value) for value in column_of(columns, data, "id", source)]
    return Rows(source, ids, list(zip(*sides, strict=True)), None)
