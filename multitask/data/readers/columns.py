"""Read a split as columns by name, from files, a saved `datasets` directory or the hub."""

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from multitask.config import Config, DataConfig
from multitask.config.yaml_reader import KeyPath
from multitask.data.readers import arrow_tables, text_files
from multitask.tasks.label_reader import canonical, is_missing
from multitask.utils.errors import UserError, no_file, reading, suggest
from multitask.utils.heartbeat import working
from multitask.utils.names import EMBEDDED

# the ending of a file and its format
FORMATS = {
    ".txt": "txt",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".conll": "conll",
}
READERS: dict[str, Callable[[Path, DataConfig], text_files.Read]] = {
    "txt": text_files.read_txt,
    "csv": partial(text_files.read_separated, declared=","),
    "tsv": partial(text_files.read_separated, declared="\t"),
    "jsonl": text_files.read_json,
    "conll": text_files.read_conll,
    "documents": text_files.read_documents,
    "parquet": lambda file, data: (arrow_tables.read_parquet(file), ()),
}
# a file in which ``multitask.train(rows=...)`` keeps rows of Python, whatever `data.format` is
ROWS_OF_PYTHON = re.compile(r"rows/[0-9a-f]{16}\.parquet$")


class Table(dict[str, list]):
    """Columns by name, which know where each of their rows is written.

    Attributes:
        source: the name of the table in messages.
        parts: (name, number of rows, first line of each row) of each file, in the order of the
            rows; no lines if the format has none.
        chosen: the rows of all files that are left, from 0; None: all.
    """

    def __init__(self, columns: Mapping[str, list], source: str, lines: Sequence[int] = ()) -> None:
        super().__init__(columns)
        self.source = source
        self.parts = [(source, self.rows, lines)]
        self.chosen: Sequence[int] | None = None

    @classmethod
    def joined(cls, tables: Sequence[Self], source: str) -> Self:
        """Concatenate tables. Raises UserError if they do not have the same columns."""
        first, *others = tables
        if not others:
            return first
        for table in others:
            if set(table) != set(first):
                raise UserError(f"{table.source}: its columns are not those of {first.source}")
        columns = {name: [cell for table in tables for cell in table[name]] for name in first}
        made = cls(columns, source)
        made.parts = [part for table in tables for part in table.parts]
        return made

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.values()), []))

    def take(self, chosen: Sequence[int]) -> Self:
        """Return these rows, from 0, of a table that has all its rows."""
        columns = {name: [cells[i] for i in chosen] for name, cells in self.items()}
        made = type(self)(columns, self.source)
        made.parts, made.chosen = self.parts, chosen
        return made

    def place(self, row: int) -> str:
        """Return ``FILE, line 3, row 2`` for a row, from 0; a row is counted in its file from 1."""
        number = row if self.chosen is None else self.chosen[row]
        for file, rows, lines in self.parts:
            if number < rows:
                line = f", line {lines[number]}" if lines else ""
                return f"{file}{line}, row {number + 1}"
            number -= rows
        raise IndexError(row)

    def column(self, name: str, key: str) -> list:
        """Return the column ``name``, which ``data.KEY`` names.

        Raises UserError if it is missing or not text.
        """
        if name not in self:
            hint = suggest(name, tuple(column for column in self if column))
            or_none = ", null takes the row's number" if key == "id" else ""
            message = f"no column {name!r}{hint}; `data.{key}` names it{or_none}"
            raise UserError(f"{self.source}: {message}")
        for row, value in enumerate(self[name]):
            if isinstance(value, bytes):
                message = "bytes that are not UTF-8: save them as text, or as UTF-8"
                raise UserError(f"{self.place(row)}: {name} holds {message}")
        return self[name]


def read_table(file: Path, data: DataConfig, form: str | None = None, name: str = "") -> Table:
    """Read a file as ``data`` describes; ``name`` is its name in messages.

    ``form`` is the format; default: that of its ending. Raises UserError with file and line.
    """
    form = form or FORMATS.get(file.suffix.lower())
    if form is None:
        endings = ", ".join(FORMATS)
        raise UserError(f"{file}: cannot tell the format: give it one of the endings {endings}")
    with reading(file):
        columns, lines = READERS[form](file, data)
    return Table(columns, name or str(file), lines)


def read_columns(config: Config, task: str, split: str) -> Table:
    """Read a split. Only rows that match ``data.where`` are returned.

    With ``data.dev_share``, train and dev are parts of the training file.
    """
    data, path = config.tasks[task].data, ("tasks", task, "data")
    share = data.dev_share if split in ("train", "dev") else None
    with working(f"reading {split} of {task}"):
        table = _every_row(config, task, "train" if share else split)
    wanted = {key: canonical(value) for key, value in (data.where or {}).items()}
    if split == "test" and not set(wanted) <= set(table):
        return table  # a test split may lack the column
    count = table.rows
    chosen: Sequence[int] = range(count)
    for name, value in wanted.items():
        if name not in table:
            hint = suggest(name, tuple(table))
            raise config.error((*path, "where"), f"{table.source} has no column {name!r}{hint}")
        chosen = [row for row in chosen if canonical(table[name][row]) == value]
    if count and not chosen:
        raise config.error((*path, "where"), f"keeps none of the {count} rows of {table.source}")
    if share:
        words = (text_of(cell).split() for cell in table.column(data.text, "text"))
        dev = [zlib.crc32(" ".join(first).encode()) < share * 2**32 for first in words]
        chosen = [row for row in chosen if dev[row] == (split == "dev")]
        if count and not chosen:
            message = f"of the {count} rows of {table.source}, none is left for {split}"
            raise config.error((*path, "dev_share"), message)
    return table if len(chosen) == count else table.take(chosen)


def _every_row(config: Config, task: str, split: str) -> Table:
    data = config.tasks[task].data
    name, path = getattr(data, split), ("tasks", task, "data", split)
    share = "or take a share of train: `dev_share: 0.1`"
    if name is None:
        share = f", {share}" if split == "dev" else ""
        raise config.error(path, f"the task has no {split} data: name it as `{split}:`{share}")
    file = config.data_path(name)
    form = format_of(data, file)
    if form in ("disk", "hub"):
        source = f"{arrow_tables.dataset_place(config, task)}[{name}]"
        with reading(source):
            loaded = arrow_tables.load_dataset(config, task, name).with_format("arrow")[:]
            return Table(arrow_tables.arrow_columns(loaded), source)
    files = files_of(file)
    missing = next((part for part in files or [file] if not part.is_file()), None)
    if missing is not None:
        share = f"; {share}" if split == "dev" else ""
        raise config.error(path, f"{no_file(missing)} ({_advice(config, path, name)}){share}")
    if form is None:
        raise config.error(path, f"cannot tell the format of {file.name}: set `data.format`")
    tables = [read_table(part, data, form, source_of(part, task)) for part in files]
    return Table.joined(tables, source_of(file, task))


def _advice(config: Config, path: KeyPath, name: str) -> str:
    """Say what to do about a missing file; it may be next to the YAML file."""
    if config.data_dir == EMBEDDED:
        directory = Path(config.where(path).rpartition(":")[0]).parent
        for place, shown in ((Path(), "."), (directory, directory)):
            if (place / name).is_file():
                return f"it is in {place.resolve()}: set data_dir={shown}"
    return "is `data_dir` right?" + ("; null where there is none" if path[-1] == "test" else "")


def source_of(file: Path, task: str) -> str:
    """Name a file of a task's rows in messages; the user has not seen one with rows of Python."""
    return f"rows of task {task}" if ROWS_OF_PYTHON.search(str(file)) else str(file)


def files_of(file: Path) -> list[Path]:
    """Return the files of a name, in which ``*`` is a pattern, in the order of their names."""
    return sorted(file.parent.glob(file.name)) if "*" in file.name else [file]


def format_of(data: DataConfig, file: Path) -> str | None:
    """Return the format of a file, or of a data set; None if the file's ending does not tell."""
    by_ending = data.format == "auto" or ROWS_OF_PYTHON.search(str(file))
    return FORMATS.get(file.suffix.lower()) if by_ending else data.format


def text_of(value: Any) -> str:
    """Return a value as a text; an empty one if it is missing."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if is_missing(value) else str(value)
