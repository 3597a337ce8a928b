"""A split's rows as columns by name, from a table, a saved `datasets` directory or the hub."""

import zlib
from typing import Any

from multitask.config import Config, DataConfig
from multitask.data.readers.tables import FORMATS, read_table
from multitask.tasks.examples import canonical
from multitask.utils.errors import UserError, suggest


def read_columns(config: Config, task: str, split: str) -> tuple[dict[str, list], str]:
    """A split's rows as columns by name, and how to call it in a message.

    Those that ``data.where`` keeps; ``data.dev_share`` of the training rows are the dev set.
    """
    data, path = config.tasks[task].data, ("tasks", task, "data")
    share = data.dev_share if split in ("train", "dev") else None
    columns, source = _every_row(config, task, "train" if share else split)
    wanted = {k: canonical(v) for k, v in (config.tasks[task].data.where or {}).items()}
    if split == "test" and not set(wanted) <= set(columns):
        return columns, source  # what is to be predicted may lack the column
    for name in wanted:
        if name not in columns:
            hint = suggest(name, tuple(columns))
            raise config.error((*path, "where"), f"{source} has no column {name!r}{hint}")
    count = len(next(iter(columns.values()), []))
    kept = [i for i in range(count) if all(canonical(columns[k][i]) == wanted[k] for k in wanted)]
    if count and not kept:
        raise config.error((*path, "where"), f"keeps none of the {count} rows of {source}")
    if share:
        first = [text_of(value).split() for value in column_of(columns, data, "text", source)]
        dev = [zlib.crc32(" ".join(words).encode()) < share * 2**32 for words in first]
        kept = [i for i in kept if dev[i] == (split == "dev")]
        if count and not kept:
            message = f"of the {count} rows of {source}, none is left for {split}"
            raise config.error((*path, "dev_share"), message)
    if len(kept) == count:
        return columns, source
    return {name: [values[i] for i in kept] for name, values in columns.items()}, source


def _every_row(config: Config, task: str, split: str) -> tuple[dict[str, list], str]:
    data = config.tasks[task].data
    name = getattr(data, split)
    path = ("tasks", task, "data", split)
    if name is None:
        raise config.error(path, f"the task has no {split} data: name it as `{split}:`")
    if data.format in ("disk", "hub"):
        return _read_dataset(config, task, name)
    file = config.data_path(name)
    files = sorted(file.parent.glob(file.name)) if "*" in file.name else [file]
    if not files or not files[0].is_file():
        without = "; null where there is none" if split == "test" else ""
        raise config.error(path, f"no such file: {file} (is `data_dir` right?{without})")
    form = FORMATS.get(file.suffix.lower()) if data.format == "auto" else data.format
    if form is None:
        raise config.error(path, f"cannot tell the format of {file.name}: set `data.format`")
    tables = [read_table(one, form, data) for one in files]
    for one, table in zip(files, tables, strict=True):
        if set(table) != set(tables[0]):
            raise UserError(f"{one}: its columns are not those of {files[0].name}")
    return {name: [v for table in tables for v in table[name]] for name in tables[0]}, str(file)


def _read_dataset(config: Config, task: str, split: str) -> tuple[dict[str, list], str]:
    import datasets

    data = config.tasks[task].data
    assert data.path is not None  # the config's validator asks for it
    local = config.data_path(data.path)
    where = str(local) if local.exists() else data.path
    try:
        if data.format == "disk":
            found = datasets.load_from_disk(where)
            if not isinstance(found, datasets.DatasetDict):
                raise ValueError("it has no splits; save a DatasetDict")
            if split not in found:
                raise ValueError(f"its splits are {', '.join(map(str, found))}")
            table = found[split]
        else:
            table = datasets.load_dataset(where, data.subset, split=split)
    except Exception as error:  # the library raises many kinds, all of them about this input
        reason = " ".join(str(error).split())[:300]
        message = f"cannot load the data set {where!r}, split {split!r}: {reason}"
        raise config.error(("tasks", task, "data", "path"), message) from error
    return table.to_dict(), f"{where}[{split}]"


def column_of(columns: dict[str, list], data: DataConfig, key: str, source: str) -> list:
    """The column that a key of ``data`` names. Raises UserError where there is none."""
    name = getattr(data, key)
    if name not in columns:
        hint = suggest(name, tuple(column for column in columns if column))
        or_none = ", null takes the row's number" if key == "id" else ""
        raise UserError(f"{source}: no column {name!r}{hint}; `data.{key}` names it{or_none}")
    return columns[name]


def text_of(value: Any) -> str:
    return "" if value is None or value != value else str(value)
