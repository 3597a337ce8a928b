"""Read tables of types: Parquet files, and data sets of the `datasets` library (disk and hub)."""

import contextlib
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from multitask.config import Config, DataConfig
from multitask.utils.errors import UserError, reason_of

Features = Mapping[str, Any]  # the type of each column, as `datasets` declares it


def read_parquet(file: Path) -> dict[str, list]:
    """Read the columns of a Parquet file. Raises UserError if it cannot be read."""
    import pyarrow.parquet

    with _explained(file):
        return arrow_columns(pyarrow.parquet.read_table(file))


def parquet_features(file: Path) -> Features:
    """Return the features that `datasets` saved in a Parquet file; empty if there are none."""
    import datasets
    import pyarrow.parquet

    with _explained(file):
        schema = pyarrow.parquet.read_schema(file)
        declared = b"huggingface" in (schema.metadata or {})
        return datasets.Features.from_arrow_schema(schema) if declared else {}


@contextlib.contextmanager
def _explained(file: Path) -> Iterator[None]:
    """Turn an exception of a library, of whatever kind, into a UserError that names the file."""
    try:
        yield
    except Exception as error:
        raise UserError(f"{file}: not a readable Parquet file: {reason_of(error)}") from error


def arrow_columns(table: Any) -> dict[str, list]:
    """Return the columns of an Arrow table. Bytes are decoded if they are UTF-8.

    A float32 becomes the shortest number that it is read from: 0.1, not 0.10000000149011612.
    """
    import pyarrow

    columns: dict[str, list] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.type == pyarrow.float32():
            column = column.cast(pyarrow.string()).cast(pyarrow.float64())
        try:
            values = column.to_pylist()
        except (ValueError, OverflowError):
            values = [_value(scalar) for scalar in column]
        columns.setdefault(name, [*map(_text, values)])
    return columns


def _value(scalar: Any) -> Any:
    """Return a text that is not UTF-8 as bytes, and a time that Python cannot hold as null."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError) as error:
        return getattr(error, "object", None)


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


def dataset_place(config: Config, task: str) -> str:
    """Return the directory of a task's data set, or its id on the hub."""
    path = config.tasks[task].data.path
    assert path is not None  # the config's validator asks for it
    local = config.data_path(path)
    return str(local) if local.exists() else path


def load_dataset(config: Config, task: str, split: str) -> Any:
    """Load a split as a `datasets.Dataset`. Raises UserError if this fails.

    Cells of CSV files are texts as in the file, where pandas would turn `007` into 7.
    """
    import datasets

    data, where = config.tasks[task].data, dataset_place(config, task)
    try:
        if data.format == "disk":
            saved = datasets.load_from_disk(where)
            names = [*saved] if isinstance(saved, dict) else []  # of one Dataset: no splits
            if split not in names:
                raise ValueError(f"its splits are {', '.join(names)}: save a DatasetDict")
            return saved[split]
        opened, builder = _opened(where, data)
        options = _csv_options(opened, builder, data) if builder.name == "csv" else {}
        return datasets.load_dataset(opened, data.subset, split=split, **options)
    except Exception as error:  # the library raises many kinds, all of them about this input
        reason = reason_of(error, 300)
        message = f"cannot load the data set {where!r}, split {split!r}: {reason}"
        raise config.error(("tasks", task, "data", "path"), message) from error


def _opened(where: str, data: DataConfig) -> tuple[str, Any]:
    """Return the place of a data set and its builder.

    Without a network, the place is the copy that an earlier load left in the cache of the hub.
    """
    import datasets
    from huggingface_hub import snapshot_download

    problem = None
    try:
        builder = datasets.load_dataset_builder(where, data.subset)
        if builder.name != "cache" or builder.info.builder_name != "csv":
            return where, builder
    except Exception as error:
        problem = error
    try:
        saved = snapshot_download(where, repo_type="dataset", local_files_only=True)
    except Exception as error:  # its files were never downloaded, or `where` is a directory
        raise problem or error from None
    return saved, datasets.load_dataset_builder(saved, data.subset)


def _csv_options(where: str, builder: Any, data: DataConfig) -> dict[str, object]:
    """Return options with which pandas reads the cells of a CSV file as text."""
    import datasets

    options: dict[str, object] = {} if data.quoting else {"quoting": csv.QUOTE_NONE}
    if builder.info.features:
        known = {"features": builder.info.features, "na_values": [""]}
        return {**options, **known, "keep_default_na": False}
    streamed = datasets.load_dataset(where, data.subset, streaming=True, **options)
    names = next(iter(next(iter(streamed.values()))))
    text = datasets.Value("string")
    features = datasets.Features({str(name): text for name in names})
    return {**options, "features": features, "na_filter": False}


def class_names(features: Features, column: str) -> list[str]:
    """Return the class names of a column of classes, or of lists of classes; else none."""
    import datasets

    feature = features.get(column)
    while isinstance(feature, datasets.List | datasets.LargeList):
        feature = feature.feature
    return list(feature.names) if isinstance(feature, datasets.ClassLabel) else []
