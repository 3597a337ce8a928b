"""The rows of a split, with labels; rows without a label are dropped and counted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from multitask.config import Config
from multitask.data.by_type import reading_of
from multitask.data.classes import check_names
from multitask.data.labels import row_labels
from multitask.data.readers.columns import read_columns
from multitask.data.texts import rows_of, sample, unlabelled_rows
from multitask.tasks.base import NoLabels, TaskType
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError


def load_rows(config: Config, task: str, split: str, reader: LabelReader) -> Rows:
    """Read a split: map the labels; drop and count rows without a label.

    Some task types have no labels, and a test split may have none. Raises UserError with file and
    row if a label cannot be read, if a file or column is missing, or if the split is empty.
    """
    data, how = config.tasks[task].data, reading_of(reader.task_type)
    table = read_columns(config, task, split)
    rows = how.rows_of(data, table)
    if isinstance(reader.task_type, NoLabels):
        return rows
    if split == "test" and data.label not in table:
        return rows
    check_names(config, task, reader, [split])
    rows = how.labelled_rows(config, task, table, rows, split=split, reader=reader)
    if rows.labels is None:
        return rows
    if split == "test" and reader.task_type.missing(rows.labels).any():  # a split to predict
        return replace(rows, labels=None, answers=None)
    return labelled_only(rows, reader.task_type)


def labelled_only(rows: Rows, task_type: TaskType) -> Rows:
    """Return the rows with a label; count the others. Raises UserError if no row has one."""
    return _without(task_type.missing(rows.gold), rows)


def _without(missing: np.ndarray, rows: Rows) -> Rows:
    """Leave rows out, bool [N], because they lack a label, and count them."""
    if missing.all():
        raise UserError(f"{rows.source}: no labelled rows ({len(rows)} without a label)")
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
    table = read_columns(config, tasks[0], split)
    rows = rows_of(config.tasks[tasks[0]].data, table)
    labels = {
        task: row_labels(config.tasks[task].data, table, rows, readers[task], split=split)
        for task in tasks
    }
    missing = [readers[task].task_type.missing(column) for task, column in labels.items()]
    nothing = np.all(missing, axis=0)
    rows = _without(nothing, rows)
    return {task: replace(rows, labels=column[~nothing]) for task, column in labels.items()}


def split_rows(config: Config, task: str, split: str, readers: Mapping[str, LabelReader]) -> Rows:
    """Read a split of a task: rows with labels, or the texts of a task without labels.

    Of dev and of a labelled test split only ``max_dev_rows`` are returned. An unlabelled test split
    is returned whole, as its predictions are handed in, except in a trial (`--try`).
    """
    sources = config.tasks[task].data.texts_of or [task]
    parts = [load_rows(config, name, split, readers[name]) for name in sources]
    rows = parts[0]
    if isinstance(readers[task].task_type, NoLabels):
        rows = unlabelled_rows(config, task, parts, readers[task])
    to_hand_in = split == "test" and rows.labels is None and not config.trial
    if split == "train" or to_hand_in:
        return rows
    return sample(rows, config.tasks[task].max_dev_rows)
