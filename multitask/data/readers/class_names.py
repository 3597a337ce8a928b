"""The class names that files give the numbers in a label column (``ClassLabel``), compared."""

from collections.abc import Iterable, Sequence

from multitask.config import Config
from multitask.data.readers import hub
from multitask.data.readers.columns import files_of, format_of
from multitask.data.readers.parquet import parquet_features
from multitask.data.readers.places import source_of
from multitask.tasks.label_reader import LabelReader, some_of
from multitask.utils.errors import UserError
from multitask.utils.look_alikes import look, looks_like

SPLITS = ("train", "dev", "test")


def class_names(config: Config, task: str, splits: Iterable[str] = SPLITS) -> list[str]:
    """Return the class names of the numbers in the label column, if the files contain them.

    Every file may name all classes, or only the first ones. Raises UserError if two files have
    different names for a number.
    """
    return _longest(config, task, splits)[1]


def check_names(
    config: Config, task: str, reader: LabelReader, splits: Iterable[str] = SPLITS
) -> None:
    """Raise UserError if the names in the files contradict one another, or the task's classes.

    The config may rename the classes of a file. It contradicts the file if it has a name of the
    file for another number. Without ``labels`` the classes are the files', see ``class_names``.
    """
    if config.tasks[task].data.labels is None and not config.tasks[task].only_scored:
        return
    source, names = _longest(config, task, splits)
    looks = {look(name) for name in reader.names}
    for number, name in enumerate(names):
        known_as = reader.ids.get(str(number))
        renamed = str(number) if known_as is None else reader.names[known_as]
        if renamed != str(number) and look(name) in looks and look(name) != look(renamed):
            saved, configured = some_of(names), some_of(reader.names)
            what = f"the classes of {source} are {saved}, of `labels` {configured}"
            difference = f"number {number} is {name!r} in one and {renamed!r} in the other"
            raise _error(config, task, f"{what}: {difference}: name the numbers as the file does")


def _longest(config: Config, task: str, splits: Iterable[str]) -> tuple[str, list[str]]:
    """Return the source with the most class names, and the names."""
    longest: tuple[str, list[str]] = ("", [])
    for declared in _declared(config, task, splits):
        if problem := _contradiction(longest, declared):
            raise _error(config, task, f"{problem}: number the classes alike in all files")
        longest = max(longest, declared, key=lambda pair: len(pair[1]))
    return longest


def _declared(config: Config, task: str, splits: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the class names in each file that has them, with the name of the file or split."""
    data = config.tasks[task].data
    declared = []
    for name in filter(None, (getattr(data, split) for split in splits)):
        if data.format in ("disk", "hub"):
            declared += hub.features_of(config, task, name)
            continue
        for file in files_of(config.data_path(name)):
            if format_of(data, file) == "parquet" and file.is_file():
                declared.append((source_of(file, task), parquet_features(file)))
    pairs = ((source, hub.class_names(features, data.label)) for source, features in declared)
    return [(source, names) for source, names in pairs if names]


def _contradiction(first: tuple[str, Sequence[str]], other: tuple[str, Sequence[str]]) -> str:
    """Describe the first number that has two names; "" if there is none."""
    pairs = enumerate(zip(first[1], other[1], strict=False))
    for number, (name, another) in pairs:
        if name != another:
            lists = f"the classes of {other[0]} are {some_of(other[1])}"
            lists += f", of {first[0]} {some_of(first[1])}"
            alike = looks_like(another, [name])
            return (
                f"{lists}: number {number} is {another!r} in one and {name!r} in the other{alike}"
            )
    return ""


def _error(config: Config, task: str, message: str) -> UserError:
    key = "label" if config.tasks[task].data.labels is None else "labels"
    return config.error(("tasks", task, "data", key), message)
