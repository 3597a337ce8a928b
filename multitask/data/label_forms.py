"""The form of a column with several classes per row: lists of classes, or label vectors."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from multitask.config import Config, DataConfig
from multitask.data.readers.columns import column_of, read_columns
from multitask.tasks.base import RowLabels, TaskType
from multitask.tasks.label_reader import canonical, is_missing
from multitask.tasks.label_vectors import vector_in, vector_length


def has_no_label(cell: Any, unlabelled: Collection[str]) -> bool:
    """Return True for a missing cell, and for a text that means 'no label'."""
    return is_missing(cell) or (not isinstance(cell, list | dict) and canonical(cell) in unlabelled)


def with_first(cells: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    """Yield each cell with the first row that has the same text: a few texts are most labels."""
    rows: dict[str, int] = {}
    for row, cell in enumerate(cells):
        yield cell, rows.setdefault(cell, row) if isinstance(cell, str) else row


def count_classes(config: Config, task: str) -> int:
    """Return the length of most label vectors of the training file.

    Raises UserError if there are no vectors, or if they have one number.
    """
    data = config.tasks[task].data
    columns, source = read_columns(config, task, "train")
    cells = _labelled(data, column_of(columns, data, "label", source))
    vectors = (vector_in(cell, data.label_separator) for cell in cells)
    lengths = Counter(len(vector) for vector in vectors if vector is not None)
    length = max(lengths, key=lambda size: lengths[size], default=0)
    if length < 2:
        what = "vectors of one number" if length else "no vectors of 0 and 1"
        message = f"{source}: {data.label!r} has {what}, and a task has at least two classes"
        raise config.error(("tasks", task, "data", "label_vectors"), message)
    return length


def takes_sets(task_type: TaskType) -> bool:
    """Return True if a row may have any number of classes."""
    classes = task_type.described_by == "labels" and not task_type.one_value
    return classes and isinstance(task_type, RowLabels)


def refuse_vectors(
    config: Config,
    task: str,
    cells: Sequence[Any],
    task_type: TaskType,
    *,
    source: str,
    named: bool,
) -> None:
    """Raise UserError if the labels are vectors and the config does not say how to read them.

    Args:
        config: the config that has the task.
        task: its name.
        cells: its column of labels.
        task_type: the type of its head.
        source: the name of the file.
        named: the classes are known already. Lists of 0 and 1 may then be lists of these classes.
    """
    data = config.tasks[task].data
    if not takes_sets(task_type) or data.label_vectors is not None:
        return
    labelled = _labelled(data, cells)
    length = vector_length(labelled, data.label_separator, data.padding_label, sure=named)
    if not length:
        return
    shown = " ".join(str(labelled[0]).replace("'", "").split())
    form = "vectors of 0 and 1" if length > 1 else "lists of one number, 0 or 1"
    remedy = "set `label_vectors: true`, and name the classes in their order in `labels`"
    if length == 1:
        remedy = "write the number without a list, for a head that takes one label per row"
    message = f"{source}: {data.label!r} has {form}, such as {shown:.60}: {remedy}"
    kept = "`label_vectors: false` reads each as a list of the classes 0 and 1"
    raise config.error(("tasks", task, "data", "label_vectors"), f"{message}; {kept}")


def _labelled(data: DataConfig, cells: Sequence[Any]) -> list[Any]:
    skip = set(map(canonical, data.unlabelled))
    return [cell for cell in cells if not has_no_label(cell, skip)]
