"""The classes of each task: of the config, of the files' features, or of the label column."""

import math
from collections.abc import Iterable, Iterator, Mapping

from multitask.config import Config
from multitask.config.registry import head_type, is_ordered
from multitask.data.labels import cell_reader
from multitask.data.readers import arrow_tables
from multitask.data.readers.columns import files_of, format_of, read_columns, source_of
from multitask.tasks.base import RowLabels, TaskType, WordLabels
from multitask.tasks.label_reader import LabelReader, canonical, number_of, some_of
from multitask.tasks.token_classification import REPAIR, scheme_of, tags_of_repairs
from multitask.utils import limits
from multitask.utils.errors import UserError
from multitask.utils.look_alikes import look, looks_like

SPLITS = ("train", "dev", "test")


def takes_sets(task_type: TaskType) -> bool:
    """Return True if a row may have any number of classes."""
    return isinstance(task_type, RowLabels) and not task_type.one_value


def label_readers(config: Config, tasks: Iterable[str] | None = None) -> dict[str, LabelReader]:
    """Return each task's label reader, for its head's task type; see ``label_reader``.

    ``tasks`` are the tasks; default: all.

    Raises UserError if a head needs the order of the classes and it is unknown.
    """
    readers = {}
    for task in config.tasks if tasks is None else tasks:
        entry = config.tasks[task]
        reader = label_reader(config, task, head_type(entry.head.name))
        words = [value for value in reader.ids if math.isnan(number_of(value))]
        if words and entry.data.labels is None and reader.ordered:
            who = "`ordered: true`" if entry.data.ordered else f"head {entry.head.name!r}"
            message = f"{who} needs the order of {some_of(words)}"
            advice = "list all classes from the lowest to the highest, such as [low, medium, high]"
            raise config.error(("tasks", task, "data", "labels"), f"{message}: {advice}")
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
        no_answer = bool(config.tasks[task].head.options.get("no_answer"))
        return LabelReader(task_type, {}, (), no_answer=no_answer)
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
    ordered = data.ordered or is_ordered(config.tasks[task].head.name)
    return LabelReader(task_type, ids, names, scheme=scheme, ordered=ordered)


def _check_keys(config: Config, task: str, task_type: TaskType) -> None:
    """Raise UserError if the head does not use a given key, or needs a missing `label_range`."""
    data, described_by = config.tasks[task].data, task_type.described_by
    several = described_by == "labels" and not task_type.one_value
    used = {
        "labels": described_by == "labels",
        "label_range": described_by == "label_range",
        "padding_label": several,
        "ordered": bool(task_type.of_ordered),
        "label_vectors": takes_sets(task_type) and described_by == "labels",
    }
    for key, is_used in used.items():
        if not is_used and getattr(data, key) not in (None, False):
            instead = f"; give `{described_by}`" * (key in ("labels", "label_range"))
            message = f"the head predicts {task_type.predicts}: leave this out"
            raise config.error(("tasks", task, "data", key), message + instead * bool(described_by))
    if used["label_range"] and data.label_range is None:
        message = "a head that predicts numbers needs `label_range: [low, high]`"
        raise config.error(("tasks", task, "data", "label_range"), message)


def _class_of_value(config: Config, task: str, task_type: TaskType) -> Mapping[str, str]:
    """Return the class of each label value, if the config does not give `labels`."""
    if config.tasks[task].only_scored:  # it has no training rows
        task = config.tasks[task].share_head or task
    data = config.tasks[task].data
    if not data.label_vectors:
        if named := _declared_names(config, task, SPLITS)[1]:
            padding = [] if data.padding_label is None else [data.padding_label]
            for key, values in {"unlabelled": data.unlabelled, "padding_label": padding}.items():
                for name in set(named).intersection(values) - {"", *map(str, range(len(named)))}:
                    what = f"write {named.index(name)} instead of {name!r}"
                    message = f"the column has numbers: {what}"
                    raise config.error(("tasks", task, "data", key), message)
            return {str(number): name for number, name in enumerate(named)}
        if task_type.default_labels is not None:
            return task_type.default_labels
    return {value: value for value in _label_values(config, task, task_type)}


def _label_values(config: Config, task: str, task_type: TaskType) -> list[str]:
    """Return the sorted values of the training file's label column.

    The values of label vectors are the numbers of their places.
    """
    data = config.tasks[task].data
    table = read_columns(config, task, "train")
    cells = table.column(data.label, "label")
    read = cell_reader(data, task_type)
    values: set[str] = set()
    seen: set[str] = set()  # a few texts are most labels
    for row, cell in enumerate(cells):
        if isinstance(cell, str):
            if cell in seen:
                continue
            seen.add(cell)
        try:
            found = read(cell)
        except ValueError as error:
            raise UserError(f"{table.place(row)}: {data.label} {error}") from None
        if data.label_vectors and found is not None:
            values = {str(place) for place in range(len(found))}
            break
        values.update(found or ())
    skip = set(map(canonical, data.unlabelled))
    values = {value for value in values if canonical(value) not in skip}
    if not task_type.one_value:
        values.discard("")  # a missing item of a list is no class
    if not cells:
        raise UserError(f"{table.source}: no rows")
    if len(values) < 2:
        listed = ", ".join(sorted(values)) or "none"
        message = f"column {data.label!r} needs at least two labels and has: {listed}"
        raise UserError(f"{table.source}: {message}; `data.label` names it, `data.labels` them")
    bits = {*map(canonical, values)} == {"0", "1"}
    if bits and takes_sets(task_type) and data.label_vectors is None:
        form = "`true` for vectors of a 0 or 1 per class, `false` for lists of the classes 0 and 1"
        message = f"{table.source}: {data.label!r} has 0 and 1 alone: set it to {form}"
        raise config.error(("tasks", task, "data", "label_vectors"), message)

    def order(value: str) -> tuple[float, str]:
        number = number_of(value)
        return math.inf if math.isnan(number) else number, value

    return sorted(values, key=order)


def check_names(
    config: Config, task: str, reader: LabelReader, splits: Iterable[str] = SPLITS
) -> None:
    """Raise UserError if the names in the files contradict one another, or the task's classes.

    The config may rename the classes of a file. It contradicts the file if it has a name of the
    file for another number.
    """
    if config.tasks[task].data.labels is None and not config.tasks[task].only_scored:
        return
    source, names = _declared_names(config, task, splits)
    looks = {look(name) for name in reader.names}
    for number, name in enumerate(names):
        known_as = reader.ids.get(str(number))
        renamed = str(number) if known_as is None else reader.names[known_as]
        if renamed != str(number) and look(name) in looks and look(name) != look(renamed):
            what = f"{source} are {some_of(names)}, of `labels` {some_of(reader.names)}"
            raise _contradiction(config, task, what, (number, name, renamed))


def _declared_names(config: Config, task: str, splits: Iterable[str]) -> tuple[str, list[str]]:
    """Return the class names that files give the numbers in the label column, and the file.

    Every file may name all classes, or only the first ones: the longest list is returned. Raises
    UserError if two files have different names for a number.
    """
    longest: tuple[str, list[str]] = ("", [])
    for source, features in _features(config, task, splits):
        names = arrow_tables.class_names(features, config.tasks[task].data.label)
        for number, (name, other) in enumerate(zip(names, longest[1], strict=False)):
            if name != other:
                what = f"{source} are {some_of(names)}, of {longest[0]} {some_of(longest[1])}"
                raise _contradiction(config, task, what, (number, name, other))
        longest = max(longest, (source, names), key=lambda pair: len(pair[1]))
    return longest


def _features(
    config: Config, task: str, splits: Iterable[str]
) -> Iterator[tuple[str, arrow_tables.Features]]:
    """Yield the features that each file of the splits declares, with its name."""
    data = config.tasks[task].data
    for name in filter(None, (getattr(data, split) for split in splits)):
        path = config.data_path(name)
        form = format_of(data, path)
        if form in ("disk", "hub"):
            yield name, arrow_tables.load_dataset(config, task, name).features
        for file in files_of(path) if form == "parquet" else ():
            if file.is_file():
                yield source_of(file, task), arrow_tables.parquet_features(file)


def _contradiction(config: Config, task: str, lists: str, names: tuple[int, str, str]) -> UserError:
    """Say that two lists of classes name a number differently."""
    number, name, other = names
    key = "label" if config.tasks[task].data.labels is None else "labels"
    difference = f"number {number} is {name!r} in one and {other!r} in the other"
    message = f"the classes of {lists}: {difference}{looks_like(name, [other])}"
    return config.error(("tasks", task, "data", key), f"{message}: name the numbers alike")
