"""Rows of a task from CSV, TSV, JSON lines, Parquet, a saved `datasets` directory or the hub.

Columns are selected by name. Labels are mapped and checked row by row. Rows without a label are
dropped and counted.
"""

# Long: reading labels and texts shares its checks and messages

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import TEXT_KEYS, Config, DataConfig, TaskConfig
from multitask.config.registry import head_type, resolve
from multitask.data.inputs.base import Input, input_of
from multitask.data.label_forms import (
    count_classes,
    has_no_label,
    refuse_vectors,
    takes_sets,
    with_first,
)
from multitask.data.readers.class_names import check_names, class_names
from multitask.data.readers.columns import column_of, read_columns, text_of
from multitask.data.readers.endings import read_endings
from multitask.data.readers.lines import read_lines
from multitask.data.readers.places import place_of
from multitask.data.readers.tables import table_of
from multitask.data.texts import problem_of
from multitask.tasks.base import NoLabels, TaskType, WordLabels
from multitask.tasks.label_reader import (
    LabelReader,
    canonical,
    is_missing,
    label_text,
    number_of,
    some_of,
)
from multitask.tasks.label_vectors import classes_in
from multitask.tasks.rows import Rows
from multitask.tasks.token_classification import REPAIR, scheme_of, tags_of_repairs
from multitask.utils import limits
from multitask.utils.errors import UserError, warn


def label_readers(config: Config) -> dict[str, LabelReader]:
    """Return each task's label reader, for its head's task type; see ``label_reader``.

    Raises UserError if a head needs the order of the classes and it is unknown.
    """
    readers = {}
    for task, entry in config.tasks.items():
        reader = label_reader(config, task, head_type(entry.head.name))
        words = [value for value in reader.ids if math.isnan(number_of(value))]
        if words and entry.data.labels is None and reader.ordered:
            who = "`ordered: true`" if entry.data.ordered else f"head {entry.head.name!r}"
            message = f"{who} needs the order of {some_of(words)}"
            advice = "list all classes from the lowest to the highest, such as [low, medium, high]"
            message = f"{message}: {advice}"
            raise config.error(("tasks", task, "data", "labels"), message)
        readers[task] = reader
    return readers


def label_reader(config: Config, task: str, task_type: TaskType) -> LabelReader:
    """Build the label reader of a task whose head is of ``task_type``.

    Classes come from ``data.labels``. Without it, they are the sorted values of the training file
    (for binary heads: 0 and 1, or false and true). Raises UserError if the config does not fit the
    head.
    """
    data, path = config.tasks[task].data, ("tasks", task, "data")
    _check_keys(config, task, task_type)
    if data.label_range is not None:
        low, high = data.label_range
        return LabelReader(task_type, {}, (), low, high)
    if task_type.described_by != "labels":
        return LabelReader(task_type, {}, ())
    mapping = _class_of_value(config, task, task_type) if data.labels is None else data.labels
    names = tuple(dict.fromkeys(mapping.values()))
    if len(names) > limits.CLASSES:
        what = f"{data.label!r} has {len(names):,} different labels"
        message = f"{what}, and a task has at most {limits.CLASSES:,} classes: name another column"
        raise config.error((*path, "label"), message)
    scheme = scheme_of(names, data.tag_scheme)
    with config.errors_at((*path, "labels")):
        task_type.check_classes(names, scheme)
    if isinstance(task_type, WordLabels) and data.tag_scheme == REPAIR and data.labels is None:
        mapping = {**mapping, **{tag: tag for tag in tags_of_repairs(names, scheme)}}
        names = tuple(dict.fromkeys(mapping.values()))
    ids = {value: names.index(name) for value, name in mapping.items()}
    ordered = data.ordered or resolve("head", config.tasks[task].head.name).ordered
    return LabelReader(task_type, ids, names, scheme=scheme, ordered=ordered)


def _check_keys(config: Config, task: str, task_type: TaskType) -> None:
    """Raise UserError if the head does not use a given key, or needs a missing `label_range`."""
    data, path = config.tasks[task].data, ("tasks", task, "data")
    for key in ("labels", "label_range"):
        if key != task_type.described_by and getattr(data, key) is not None:
            instead = f"give `{task_type.described_by}`" * bool(task_type.described_by)
            message = f"the head predicts {task_type.predicts}: {instead or 'leave this out'}"
            raise config.error((*path, key), message)
    if task_type.described_by == "label_range" and data.label_range is None:
        message = "a head that predicts numbers needs `label_range: [low, high]`"
        raise config.error((*path, "label_range"), message)
    if data.padding_label is not None and (
        task_type.described_by != "labels" or task_type.one_value
    ):
        message = "the head takes one label per row: leave this out"
        raise config.error((*path, "padding_label"), message)
    if data.ordered and not task_type.of_ordered:
        raise config.error((*path, "ordered"), "the head takes no ordered classes: leave this out")
    if data.label_vectors is not None and not takes_sets(task_type):
        message = "the head does not take any number of classes per row: leave this out"
        raise config.error((*path, "label_vectors"), message)


def _class_of_value(config: Config, task: str, task_type: TaskType) -> Mapping[str, str]:
    """Return the class of each label value, if the config does not give `labels`."""
    if config.tasks[task].only_scored:  # it has no training rows
        task = config.tasks[task].share_head or task
    data = config.tasks[task].data
    if data.label_vectors:
        return {str(number): str(number) for number in range(count_classes(config, task))}
    if named := class_names(config, task):
        mapping = {str(number): name for number, name in enumerate(named)}
        padding = [] if data.padding_label is None else [data.padding_label]
        keys = {"unlabelled": data.unlabelled, "padding_label": padding}
        for key, values in keys.items():
            for value in set(named).intersection(values) - {"", *mapping}:
                message = f"the column has numbers: write {named.index(value)} instead of {value!r}"
                raise config.error(("tasks", task, "data", key), message)
        return mapping
    if task_type.default_labels is not None:
        return task_type.default_labels
    return {value: value for value in _label_values(config, task, task_type)}


def _label_values(config: Config, task: str, task_type: TaskType) -> list[str]:
    """Return the sorted values of the training file's label column."""
    data = config.tasks[task].data
    columns, source = read_columns(config, task, "train")
    read = _cell_reader(data, task_type)
    values: set[str] = set()
    cells = column_of(columns, data, "label", source)
    refuse_vectors(config, task, cells, task_type, source=source, named=False)
    for row, (cell, first) in enumerate(with_first(cells)):
        try:
            values.update((first == row and read(cell)) or ())
        except ValueError as error:
            where = place_of(columns, row, source)
            raise UserError(f"{where}: {data.label} {error}") from None
    skip = set(map(canonical, data.unlabelled))
    values = {value for value in values if canonical(value) not in skip}
    if not task_type.one_value:
        values.discard("")  # a missing item of a list is no class
    if not cells:
        raise UserError(f"{source}: no rows")
    if len(values) < 2:
        listed_values = ", ".join(sorted(values)) or "none"
        message = f"column {data.label!r} needs at least two labels and has: {listed_values}"
        raise UserError(f"{source}: {message}; `data.label` names it, `data.labels` its values")

    def order(value: str) -> tuple[float, str]:
        number = number_of(value)
        return math.inf if math.isnan(number) else number, value

    return sorted(values, key=order)


def load_rows(config: Config, task: str, split: str, reader: LabelReader) -> Rows:
    """Read a split: map the labels; drop and count rows without a label.

    Some task types have no labels, and a test split may have none. Raises UserError with file and
    row if a label is unknown or outside the range, if a file or column is missing, or if the split
    is empty.
    """
    data = config.tasks[task].data
    columns, source = read_columns(config, task, split)
    rows = rows_of(data, columns, source)
    if isinstance(reader.task_type, NoLabels):
        return rows
    if split == "test" and data.label not in columns:
        return rows
    check_names(config, task, reader, [split])
    cells = columns.get(data.label, [])
    refuse_vectors(config, task, cells, reader.task_type, source=source, named=True)
    rows.labels = _labels(data, columns, rows, reader, split=split)
    if split == "test" and reader.task_type.missing(rows.labels).any():
        rows.labels = None  # a test split with an empty label is one to predict
        return rows
    return labelled_only(rows, reader.task_type)


def labelled_only(rows: Rows, task_type: TaskType) -> Rows:
    """Return the rows with a label; count the others. Raises UserError if no row has one."""
    return without(task_type.missing(rows.gold), rows)


def without(missing: np.ndarray, rows: Rows, what: str = "a label") -> Rows:
    """Leave rows out, bool [N], because they lack ``what``, and count them.

    Raises UserError if no row is left.
    """
    if missing.all():
        raise UserError(f"{rows.source}: no labelled rows ({len(rows)} without {what})")
    if not missing.any():
        return rows
    labelled = rows.take(np.flatnonzero(~missing))
    labelled.unlabelled_dropped = rows.unlabelled_dropped + int(missing.sum())
    return labelled


def load_together(
    config: Config, tasks: Sequence[str], split: str, readers: Mapping[str, LabelReader]
) -> dict[str, Rows]:
    """Read rows that several tasks share: the same rows for all, with each task's labels.

    Rows without any label are dropped and counted. If a row lacks the label of only some tasks,
    these labels are marked as missing (see ``TaskType.missing``).
    """
    columns, source = read_columns(config, tasks[0], split)
    rows = rows_of(config.tasks[tasks[0]].data, columns, source)
    for task in tasks:
        cells = columns.get(config.tasks[task].data.label, [])
        refuse_vectors(config, task, cells, readers[task].task_type, source=source, named=True)
    labels = {
        task: _labels(config.tasks[task].data, columns, rows, readers[task], split=split)
        for task in tasks
    }
    missing = [readers[task].task_type.missing(column) for task, column in labels.items()]
    nothing = np.all(missing, axis=0)
    rows = without(nothing, rows)
    return {task: replace(rows, labels=column[~nothing]) for task, column in labels.items()}


def _cell_reader(
    data: DataConfig, task_type: TaskType, classes: Sequence[str] = ()
) -> Callable[[Any], Sequence[str] | None]:
    """Return a function from a cell to its label values without padding; None: no label.

    ``classes`` are the values that a label vector has numbers for.
    """
    skip = set(map(canonical, data.unlabelled))
    padding = canonical(data.padding_label)

    def read_vector(cell: Any) -> Sequence[str] | None:
        missing = has_no_label(cell, skip)
        return None if missing else classes_in(cell, classes, data.label_separator)

    def read(cell: Any) -> Sequence[str] | None:
        values = task_type.values_in(cell, skip, data.label_separator)
        if values is None or data.padding_label is None:
            return values
        if not isinstance(task_type, WordLabels):
            return [value for value in values if canonical(value) != padding]
        end = len(values)  # of tags only the last ones are padding: it may also be a tag
        while end and canonical(values[end - 1]) == padding:
            end -= 1
        return values[:end]

    return read_vector if data.label_vectors else read


def _labels(
    data: DataConfig, columns: dict, rows: Rows, reader: LabelReader, *, split: str
) -> np.ndarray:
    """Read every row's label; missing ones are marked (see ``TaskType.missing``)."""
    task_type, read = reader.task_type, _cell_reader(data, reader.task_type, [*reader.ids])
    labels = task_type.unread(len(rows), reader)
    cells = column_of(columns, data, "label", rows.source)
    for i, (cell, first) in enumerate(with_first(cells)):
        try:
            if first < i:
                labels[i] = labels[first]
            elif (values := read(cell)) is not None:
                labels[i] = task_type.read(values, reader)
        except ValueError as error:
            where = f"{place_of(columns, i, rows.source)} (id {rows.ids[i]})"
            hint = hidden_label(data, cell, split)
            raise UserError(f"{where}: {data.label} {error}{hint}") from None
    return labels


def hidden_label(data: DataConfig, cell: Any, split: str) -> str:
    """Return the rest of a message about a label that may mean "no label": -1, or one of a test."""
    items = cell if isinstance(cell, list) else [cell]
    if split != "test" and {canonical(item) for item in items} != {"-1"}:
        return ""
    if isinstance(cell, list):
        return "; if it means 'no labels', write null instead"
    values = json.dumps([*data.unlabelled, label_text(cell)], ensure_ascii=False)
    return f"; if it means 'no label', set `data.unlabelled: {values}`"


def texts_from_file(task: TaskConfig, file: Path) -> Rows:
    """Read rows without labels from a user's file: a table with the task's columns, or ``.txt``.

    A ``.txt`` file has one text per line, or a pair separated by a tab. The ids are the line
    numbers, from 0. Blank lines are skipped.
    """
    if file.suffix.lower() == ".txt":
        ids, form = [], input_of(task)
        texts: list[tuple[str, ...]] = []
        for number, line in enumerate(read_lines(file), 1):
            if not line.strip():
                continue
            text = form.row_of_line(line)
            if text is None:
                raise UserError(f"{file}, line {number}: expected {form.line}")
            if texts and len(text) != len(texts[0]):
                counts = f"{len(text)} texts, the lines above have {len(texts[0])}"
                raise UserError(f"{file}, line {number}: {counts}")
            if problem := "".join(map(problem_of, text)):
                raise UserError(f"{file}, line {number}: a text {problem}")
            ids.append(str(number - 1))
            texts.append(text)
        if not texts:
            raise UserError(f"{file}: no texts")
        return Rows(str(file), ids, texts, None)
    columns = table_of(task.data, file)
    return rows_of(ids_if_any(task.data, columns), columns, str(file))


def rows_of_texts(texts: Iterable[Any], form: Input, source: str) -> Rows:
    """Convert what ``form`` takes, such as texts or pairs of texts, to rows without labels.

    Raises UserError for anything else.
    """
    rows: list[tuple[str, ...]] = []
    for i, item in enumerate(listed(texts, form.items, source)):
        row = form.row_of(item)
        if row is None:
            shown = " ".join(repr(item).split())  # a table has line breaks
            raise UserError(f"{source} takes {form.items}; item {i} is {shown:.200}")
        if problem := "".join(map(problem_of, row)):
            raise UserError(f"{source}: item {i} {problem}")
        if rows and len(row) != len(rows[0]):
            raise UserError(f"{source}: item {i} has {len(row)} texts, item 0 has {len(rows[0])}")
        rows.append(row)
    return Rows("texts", [str(i) for i in range(len(rows))], rows, None)


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
    if hasattr(items, "columns") or hasattr(items, "column_names"):
        raise UserError(
            f"{source}: expected a list of {what}, not a table: pass one of its columns"
        )
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise UserError(f"{source}: expected a list of {what}, not {type(items).__name__}")
    return list(items)


def ids_if_any(data: DataConfig, columns: Mapping[str, list]) -> DataConfig:
    """Return ``data``; without ids if the table has no id column. Rows then have numbers."""
    return data if data.id in columns else data.model_copy(update={"id": None})


def rows_of(data: DataConfig, columns: dict[str, list], source: str) -> Rows:
    """Convert a table to rows without labels. Raises UserError if a column is missing.

    The texts of a row are those of ``data.text_columns``. With ``choices`` they are the context and
    its endings, each after the text of ``text2``.
    """
    sides = []
    for key in TEXT_KEYS:
        name, texts = getattr(data, key), []
        if name is None:
            continue
        values = column_of(columns, data, key, source)
        if missing := [row for row, value in enumerate(values, 1) if is_missing(value)]:
            what = f"{len(missing):,} without {name} (null), the first one is row {missing[0]:,}"
            warn(f"{source}: {what}: an empty text is used")
        for number, value in enumerate(values):
            text = value if isinstance(value, str) else text_of(value)
            no_text = isinstance(value, dict | list)
            if problem := f"is no text: {text[:60]}" if no_text else problem_of(text):
                raise UserError(f"{place_of(columns, number, source)}: {name} {problem}")
            texts.append(text)
        sides.append(texts)
    if not sides[0]:
        raise UserError(f"{source}: no rows")
    if data.id is None:
        ids = [str(i) for i in range(len(sides[0]))]
    else:
        ids = [*map(text_of, column_of(columns, data, "id", source))]
    rows: list[tuple[str, ...]] = list(zip(*sides, strict=True))
    if data.choices is not None:
        endings = read_endings(data, columns, source)
        rows = [
            (first, *(" ".join([*lead, ending]) for ending in row))
            for (first, *lead), row in zip(rows, endings, strict=True)
        ]
    return Rows(source, ids, rows, None)
