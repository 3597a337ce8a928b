"""Read the config that a Python program gives: a file, a dict or a ``Config``.

Rows from Python become Parquet files, which the config of a run names.
"""

import hashlib
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multitask.config import Config, DataConfig, load_config
from multitask.config.read_config import listed_overrides
from multitask.config.yaml_merge import Override, Source, Tree, load_tree
from multitask.config.yaml_reader import dump_override
from multitask.store.files import replacing
from multitask.utils.errors import UserError, reason_of, suggest

# per task a table, its train rows, or {split: table}. A table is a `datasets.Dataset`, a list of
# dicts, or anything that `pyarrow.table` takes
Rows = Mapping[str, Any]
SPLITS = ("train", "dev", "test")
DEV_SHARE = 0.1  # of train, for a task without dev rows


def check_list(name: str, given: object) -> None:
    """Raise UserError for one path in place of a list: its letters would be taken for paths."""
    if isinstance(given, str | os.PathLike):
        raise UserError(f"{name}: expected a list, not {os.fspath(given)!r}")


def read_source(
    source: Source | Config | None, overrides: Sequence[str] = (), rows: Rows | None = None
) -> Config:
    """Load a config. Its tasks read ``rows`` from files that are written next to the run.

    The files are in the directory ``rows``, next to the run directory.

    Args:
        source: a YAML file, a dict of its keys and values, or a config. None: a classification task
            for each of ``rows``.
        overrides: config values to change, such as ``["training.epochs=1"]``.
        rows: a table per task, or per task and split: ``{"sst": {"train": T, "dev": T}}``. A table
            is a ``datasets.Dataset``, a list of dicts, or anything that ``pyarrow.table`` takes.

    Raises:
        UserError: a mistake in the config or in the rows.
    """
    changes = listed_overrides(overrides)
    if source is None:
        if not rows:
            raise UserError("no config and no rows: give one of them")
        source = {"tasks": {task: {"head": "classification"} for task in rows}}
    if isinstance(source, Config):
        if not changes and not rows:
            return source
        source = source.resolved()
    if not rows:
        return load_config(source, changes)
    files = row_files(rows, load_tree(source, changes))

    def naming(directory: Path) -> Config:
        settings = [setting for file in files for setting in file.settings(directory)]
        return load_config(source, [*changes, *settings])

    directory = Path(naming(Path()).output_dir).absolute().parent / "rows"
    config = naming(directory)
    for file in files:
        file.write(directory)
    return config


@dataclass(frozen=True)
class RowFile:
    """The rows of a split as a Parquet file, which is read as such whatever `data.format` is.

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
    tasks, files = tree.value.get("tasks"), []
    tasks = tasks if isinstance(tasks, dict) else {}
    if not isinstance(rows, Mapping):
        form = "{task: table} or {task: {split: table}}"
        raise UserError(f"rows: expected {form}, not {type(rows).__name__}")
    for task, given in rows.items():
        if task not in tasks:
            raise UserError(f"rows: no task {task!r}{suggest(str(task), list(tasks))}")
        splits = given if isinstance(given, Mapping) else {"train": given}
        for split, value in splits.items():
            if split not in SPLITS:
                form = f"a table, or tables of {', '.join(SPLITS)}"
                raise UserError(f"rows: {task}: expected {form}, not {split!r}")
            table = arrow_table(value, f"rows: {task}.{split}")
            more = _defaults(tasks[task], table, splits) if split == "train" else {}
            files.append(RowFile(task, split, parquet_bytes(table), more))
    return files


def _defaults(task: Any, table: Any, given: Collection[str]) -> dict[str, Any]:
    """Return what the ``data`` of a task lacks: dev rows, and the column `text` if it has one."""
    data = task.get("data") if isinstance(task, dict) else None
    data = data if isinstance(data, dict) else {}
    values: dict[str, Any] = {}
    if "dev" not in given and not data.get("dev") and data.get("dev_share") is None:
        values["dev_share"] = DEV_SHARE
    usual = DataConfig.model_fields["text"].default
    if "text" not in data and "text" in table.column_names and usual not in table.column_names:
        values["text"] = "text"
    return values


def parquet_bytes(table: Any) -> bytes:
    """Return an Arrow table as a Parquet file; equal columns of equal types give equal bytes."""
    import pyarrow
    import pyarrow.parquet

    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table.combine_chunks(), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def arrow_table(rows: Any, place: str) -> Any:
    """Return rows as an Arrow table, whose metadata are those of a ``datasets.Dataset`` or none.

    Raises UserError, which names ``place``, for values that do not fit into a table.
    """
    import pyarrow

    column: Any = None
    try:
        datasets = sys.modules.get("datasets")  # else `rows` is none of its objects
        if datasets and isinstance(rows, datasets.Dataset):
            metadata = rows.features.arrow_schema.metadata
            table = rows.with_format("arrow")[:].replace_schema_metadata(metadata)
        else:
            columns = _columns(rows, place) if isinstance(rows, list | tuple) else rows
            if isinstance(columns, Mapping):
                made = {}
                for column, values in columns.items():
                    made[column] = pyarrow.table({column: values})[column]
                columns, column = made, None
            table = pyarrow.table(columns).replace_schema_metadata(None)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        where = place if column is None else f"{place}: column {column!r}"
        advice = "give a datasets.Dataset, a list of dicts, or what pyarrow.table takes"
        reason = f"{reason_of(error, 200)}: {advice}, with values of one type per column"
        raise UserError(f"{where}: {reason}") from error
    if not table.num_rows:
        raise UserError(f"{place}: no rows")
    return table


def _columns(rows: Sequence[Any], place: str) -> dict[Any, list[Any]]:
    """Return the columns of a list of dicts; a key that a row lacks is a missing value."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            what = f"row {number} is {type(row).__name__}"
            raise UserError(f"{place}: expected a list of dicts, but {what}")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
