"""Rows from Python become Parquet files, which the config of a run names."""

import hashlib
import io
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multitask.config import DataConfig
from multitask.config.yaml_merge import Override, Tree
from multitask.config.yaml_reader import dump_override
from multitask.store.files import replacing
from multitask.utils.errors import UserError, reason_of, suggest

# per task a table, its train rows, or {split: table}. A table is a `datasets.Dataset`, a list of
# dicts, or anything that `pyarrow.table` takes
Rows = Mapping[str, Any]
SPLITS = ("train", "dev", "test")
DEV_SHARE = 0.1  # of train, for a task without dev rows


@dataclass(frozen=True)
class RowFile:
    """The rows of a split as a Parquet file.

    Attributes:
        task: the task.
        split: ``train``, ``dev`` or ``test``.
        content: the bytes of the file.
        more: further values of the task's ``data``.
    """

    task: str
    split: str
    content: bytes
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's name, a hash of its content."""
        return f"{hashlib.sha256(self.content).hexdigest()[:16]}.parquet"

    def settings(self, directory: Path) -> list[Override]:
        """Return the overrides with which the task reads the file in ``directory``."""
        values: dict[str, Any] = {self.split: str(directory / self.name)}
        values |= {"format": "auto", "path": None, "subset": None}
        if self.split == "dev":
            values["dev_share"] = None
        values |= self.more
        place = f"rows: {self.task}.{self.split}"
        data = f"tasks.{self.task}.data"
        return [Override(dump_override(f"{data}.{k}", v), place) for k, v in values.items()]

    def write(self, directory: Path) -> None:
        """Write the file, unless it is there."""
        file = directory / self.name
        if not file.is_file() or file.read_bytes() != self.content:
            directory.mkdir(parents=True, exist_ok=True)
            with replacing(file) as made:
                made.write_bytes(self.content)


def row_files(rows: Rows, tree: Tree) -> list[RowFile]:
    """Convert rows for the tasks of a config.

    Raises UserError for a task or a split that there is not, and for values that are no table.
    """
    tasks = tree.value.get("tasks")
    tasks = tasks if isinstance(tasks, dict) else {}
    files = []
    if not isinstance(rows, Mapping):
        form = "{task: table} or {task: {split: table}}"
        raise UserError(f"rows: expected {form}, not {type(rows).__name__}")
    for task, given in rows.items():
        if task not in tasks:
            raise UserError(f"rows: no task {task!r}{suggest(str(task), list(tasks))}")
        place = f"rows: {task}"
        splits = given if isinstance(given, Mapping) else {"train": given}
        for split, table in splits.items():
            if split not in SPLITS:
                form = f"a table, or tables of {', '.join(SPLITS)}"
                raise UserError(f"{place}: expected {form}, not {split!r}")
            content = parquet_bytes(table, f"{place}.{split}")
            more = _defaults(tasks[task], content, splits) if split == "train" else {}
            files.append(RowFile(task, split, content, more))
        _check_others(tasks[task], place, tuple(splits))
    return files


def _defaults(task: Any, content: bytes, given: Collection[str]) -> dict[str, Any]:
    """Return what the ``data`` of a task lacks: dev rows, and the column `text` if it has one."""
    import pyarrow.parquet

    data = task.get("data") if isinstance(task, dict) else None
    data = data if isinstance(data, dict) else {}
    values: dict[str, Any] = {}
    if "dev" not in given and not data.get("dev") and data.get("dev_share") is None:
        values["dev_share"] = DEV_SHARE
    columns = pyarrow.parquet.read_schema(io.BytesIO(content)).names
    if (
        "text" not in data
        and "text" in columns
        and DataConfig.model_fields["text"].default not in columns
    ):
        values["text"] = "text"
    return values


def _check_others(task: Any, place: str, given: Sequence[str]) -> None:
    """Raise UserError if the other splits would be read otherwise: rows are files of `auto`."""
    data = task.get("data") if isinstance(task, dict) else None
    if not isinstance(data, dict):
        return
    form = data.get("format", "auto")
    others = {split: data[split] for split in SPLITS if split not in given and data.get(split)}
    lost = [split for split, file in others.items() if not _found_by_name(form, str(file))]
    if lost:
        message = f"the config reads {' and '.join(lost)} with `format: {form}`"
        raise UserError(f"{place}: {message}: give rows for it too, or set it to null")


def _found_by_name(form: str, file: str) -> bool:
    """Return True if a file has the format that `auto` finds by its name.

    Comma and tab are told apart by the header line, so these two are one.
    """
    from multitask.data.readers.columns import FORMATS

    by_name = FORMATS.get(Path(file).suffix.lower())
    return form in ("auto", by_name) or {form, by_name} == {"csv", "tsv"}


def parquet_bytes(rows: Any, place: str) -> bytes:
    """Return rows as a Parquet file, with the class names of a ``datasets.Dataset``.

    Equal columns of equal types give equal bytes. Raises UserError, which names ``place``, for
    values that do not fit into a table.
    """
    import pyarrow
    import pyarrow.parquet

    with _one_type(place):
        table = _arrow_table(rows, place).combine_chunks()
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table, sink)
    if not table.num_rows:
        raise UserError(f"{place}: no rows")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _arrow_table(rows: Any, place: str) -> Any:
    """Return rows as an Arrow table, whose metadata are those of a ``datasets.Dataset`` or none."""
    import pyarrow

    datasets = sys.modules.get("datasets")  # else `rows` is none of its objects
    if datasets and isinstance(rows, datasets.Dataset):
        table = rows.with_format("arrow")[:]
        return table.replace_schema_metadata(rows.features.arrow_schema.metadata)
    if isinstance(rows, list | tuple):
        rows = _columns(rows, place)
    if isinstance(rows, Mapping):
        columns = {}
        for name, values in rows.items():
            if not isinstance(name, str):
                raise UserError(f"{place}: the name of a column is text, not {name!r}")
            with _one_type(f"{place}: column {name!r}"):
                columns[name] = pyarrow.table({name: values})[name]
        rows = columns
    return pyarrow.table(rows).replace_schema_metadata(None)


def _columns(rows: Sequence[Any], place: str) -> dict[Any, list[Any]]:
    """Return the columns of a list of dicts; a key that a row lacks is a missing value."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            what = f"row {number} is {type(row).__name__}"
            raise UserError(f"{place}: expected a list of dicts, but {what}")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


@contextmanager
def _one_type(place: str) -> Iterator[None]:
    """Turn exceptions of pyarrow, such as the one for a column of mixed types, into a UserError."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        advice = "give each column values of one type"
        if isinstance(error, TypeError) and not isinstance(error, pyarrow.ArrowException):
            advice = "give a datasets.Dataset, a list of dicts, or what pyarrow.table takes"
        raise UserError(f"{place}: {reason_of(error, 200)}: {advice}") from error
