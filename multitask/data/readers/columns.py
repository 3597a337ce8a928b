"""Read a split as columns by name, from a table, a saved `datasets` directory or the hub."""

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from multitask.config import Config, DataConfig
from multitask.config.yaml_reader import KeyPath
from multitask.data.readers import hub
from multitask.data.readers.places import PlacedColumns, place_of, source_of
from multitask.data.readers.tables import FORMATS, joined, read_table
from multitask.tasks.label_reader import canonical, is_missing
from multitask.utils.errors import UserError, no_file, suggest
from multitask.utils.heartbeat import working
from multitask.utils.names import EMBEDDED


def read_columns(config: Config, task: str, split: str) -> tuple[dict[str, list], str]:
    """Read a split; return its columns by name, and the name of the source for messages.

    Only rows that match ``data.where`` are returned. With ``data.dev_share``, train and dev are
    parts of the training file.
    """
    data, path = config.tasks[task].data, ("tasks", task, "data")
    share = data.dev_share if split in ("train", "dev") else None
    with working(f"reading {split} of {task}"):
        columns, source = _every_row(config, task, "train" if share else split)
    wanted = {k: canonical(v) for k, v in (config.tasks[task].data.where or {}).items()}
    if split == "test" and not set(wanted) <= set(columns):
        return columns, source  # a test split may lack the column
    for name in wanted:
        if name not in columns:
            hint = suggest(name, tuple(columns))
            raise config.error((*path, "where"), f"{source} has no column {name!r}{hint}")
    count = len(next(iter(columns.values()), []))
    chosen: Sequence[int] = range(count)
    for name, value in wanted.items():
        cells = columns[name]
        chosen = [i for i in chosen if canonical(cells[i]) == value]
    if count and not chosen:
        raise config.error((*path, "where"), f"keeps none of the {count} rows of {source}")
    if share:
        first = [text_of(value).split() for value in column_of(columns, data, "text", source)]
        dev = [zlib.crc32(" ".join(words).encode()) < share * 2**32 for words in first]
        chosen = [i for i in chosen if dev[i] == (split == "dev")]
        if count and not chosen:
            message = f"of the {count} rows of {source}, none is left for {split}"
            raise config.error((*path, "dev_share"), message)
    if len(chosen) == count:
        return columns, source
    return columns.take(chosen), source


def _every_row(config: Config, task: str, split: str) -> tuple[PlacedColumns, str]:
    data = config.tasks[task].data
    name = getattr(data, split)
    path = ("tasks", task, "data", split)
    if name is None:
        share = ", or take a share of train: `dev_share: 0.1`" if split == "dev" else ""
        raise config.error(path, f"the task has no {split} data: name it as `{split}:`{share}")
    if data.format in ("disk", "hub"):
        source = f"{hub.place(config, task)}[{name}]"
        return joined([(source, hub.load_columns(config, task, name))]), source
    file = config.data_path(name)
    files = files_of(file)
    missing = next((part for part in files or [file] if not part.is_file()), None)
    if missing is not None:
        share = "; or take a share of train: `dev_share: 0.1`" if split == "dev" else ""
        advice = _advice(config, path, split, name)
        raise config.error(path, f"{no_file(missing)} ({advice}){share}")
    form = format_of(data, file)
    if form is None:
        raise config.error(path, f"cannot tell the format of {file.name}: set `data.format`")
    tables = [(source_of(path, task), read_table(path, form, data)) for path in files]
    return joined(tables), source_of(file, task)


def _advice(config: Config, path: KeyPath, split: str, name: str) -> str:
    """Say what to do about a missing file; it may be next to the YAML file."""
    if config.data_dir == EMBEDDED:
        directory = Path(config.where(path).rpartition(":")[0]).parent
        if Path(name).is_file():
            return "it is in this directory: set data_dir=."
        if (directory / name).is_file():
            return f"it is next to the YAML file: set data_dir={directory}"
    return "is `data_dir` right?" + ("; null where there is none" if split == "test" else "")


def files_of(file: Path) -> list[Path]:
    """Return the files of a name, in which ``*`` is a pattern, in the order of their names."""
    return sorted(file.parent.glob(file.name)) if "*" in file.name else [file]


def format_of(data: DataConfig, file: Path) -> str | None:
    """Return the format of a file; None if its ending does not tell."""
    return FORMATS.get(file.suffix.lower()) if data.format == "auto" else data.format


def column_of(columns: dict[str, list], data: DataConfig, key: str, source: str) -> list:
    """Return the column that a key of ``data`` names. Raises UserError if missing or not text."""
    return column_named(columns, getattr(data, key), key, source)


def column_named(columns: Mapping[str, list], name: str, key: str, source: str) -> list:
    """Return the column ``name``, which ``data.KEY`` names. Raises UserError as ``column_of``."""
    if name not in columns:
        hint = suggest(name, tuple(column for column in columns if column))
        or_none = ", null takes the row's number" if key == "id" else ""
        raise UserError(f"{source}: no column {name!r}{hint}; `data.{key}` names it{or_none}")
    for row, value in enumerate(columns[name]):
        if isinstance(value, bytes):
            message = "bytes that are not UTF-8: save them as text, or as UTF-8"
            raise UserError(f"{place_of(columns, row, source)}: {name} holds {message}")
    return columns[name]


def text_of(value: Any) -> str:
    """Return a value as a text; an empty one if it is missing."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if is_missing(value) else str(value)
