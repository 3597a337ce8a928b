"""Read Parquet files and Arrow tables as columns by name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from multitask.utils.errors import UserError, reading, reason_of


def read_parquet(file: Path) -> dict[str, list]:
    """Read the columns of a Parquet file. Raises UserError if it cannot be read."""
    import pyarrow.parquet

    with reading(file), _explained(file):
        return arrow_columns(pyarrow.parquet.read_table(file))


def parquet_features(file: Path) -> Any:
    """Return the features that `datasets` saved in a Parquet file; empty if there are none.

    Raises UserError if the file cannot be read.
    """
    import pyarrow.parquet

    with reading(file), _explained(file):
        return _features(pyarrow.parquet.read_schema(file))


def arrow_features(file: Path) -> Any:
    """Return the features that `datasets` saved in an Arrow file; empty if there are none."""
    import pyarrow

    with reading(file), pyarrow.memory_map(str(file)) as source:
        try:
            return _features(pyarrow.ipc.open_stream(source).schema)
        except pyarrow.ArrowInvalid:
            return _features(pyarrow.ipc.open_file(source).schema)


def _features(schema: Any) -> Any:
    if b"huggingface" not in (schema.metadata or {}):
        return {}
    import datasets

    return datasets.Features.from_arrow_schema(schema)


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        reason = reason_of(error)
        raise UserError(f"{file}: not a readable Parquet file: {reason}") from error


def arrow_columns(table: Any) -> dict[str, list]:
    """Return the columns of an Arrow table. Bytes are decoded if they are UTF-8.

    A float32 becomes the shortest number that it is read from: 0.1, not 0.10000000149011612.
    """
    columns: dict[str, list] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        columns.setdefault(name, [_text(value) for value in _values(column)])
    return columns


def _values(column: Any) -> list:
    import pyarrow

    if column.type == pyarrow.time64("ns"):  # a time of Python has microseconds
        column = column.cast("string")
    narrow = _innermost(column.type)
    if narrow == pyarrow.float32():
        for kind in (pyarrow.string(), pyarrow.float64()):
            column = column.cast(_with_innermost(column.type, kind))
    try:
        values: list = column.to_pylist()
    except (ValueError, OverflowError):
        return [_value(scalar) for scalar in column]
    return list(map(_shortest, values)) if narrow == pyarrow.float16() else values


def _innermost(kind: Any) -> Any:
    """Return the type of the values in lists of lists, or of repeated values."""
    from pyarrow.types import is_dictionary, is_nested

    holds = (is_nested(kind) or is_dictionary(kind)) and hasattr(kind, "value_type")
    return _innermost(kind.value_type) if holds else kind


def _with_innermost(kind: Any, innermost: Any) -> Any:
    """Return the type of the same lists with another type of values."""
    import pyarrow

    if not pyarrow.types.is_nested(kind):
        return innermost
    inner = _with_innermost(kind.value_type, innermost)
    if pyarrow.types.is_fixed_size_list(kind):
        return pyarrow.list_(inner, kind.list_size)
    return pyarrow.large_list(inner) if pyarrow.types.is_large_list(kind) else pyarrow.list_(inner)


def _shortest(value: Any) -> Any:
    """Return the shortest number of a float16, or of a list of them; pyarrow writes all digits."""
    if isinstance(value, list):
        return [_shortest(item) for item in value]
    return value if value is None else float(str(np.float16(value)))


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return error.object  # the bytes
    except (ValueError, OverflowError):  # a time that Python cannot hold
        return str(scalar.cast("string"))


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value
