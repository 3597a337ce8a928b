"""A config with one task `t`, and its training rows from a file that a test writes."""

from pathlib import Path

import pytest

from multitask.config import Config, load_config
from multitask.config.registry import task_type
from multitask.config.yaml_reader import dump_yaml
from multitask.data.load_rows import load_rows
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

BINARY = LabelReader(task_type("binary"), {"0": 0, "1": 1}, ("no", "yes"))


def make(directory: Path, data: dict, head: str = "binary", **task: object) -> Config:
    """A config with one task `t`, its files under ``directory``."""
    given = {"train": "train.csv", "dev": "dev.csv", "id": "id", **data}
    entry = {"data": given, "head": head, **task}
    file = directory / "config.yaml"
    file.write_text(dump_yaml({"data_dir": str(directory), "tasks": {"t": entry}}))
    return load_config(file)


def csv_text(rows: list[dict], separator: str = ",") -> str:
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in line] for line in lines]
    return "\n".join(separator.join(line) for line in quoted) + "\n"


def rows_of(directory: Path, text: str | bytes, name: str = "train.csv", **data: object) -> Rows:
    """The training rows of a file with this text, labels 0 and 1."""
    raw = text if isinstance(text, bytes) else text.encode()
    (directory / name).write_bytes(raw)
    return load_rows(make(directory, {"train": name, **data}), "t", "train", BINARY)


def refusal(act, *arguments: object, **options: object) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError) as caught:
        act(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)
