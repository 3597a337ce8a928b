"""Files that are whole or absent, and standard JSON; no torch here."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_text(file: Path, text: str) -> None:
    """Write a text file atomically."""
    scratch = file.with_name(f".{file.name}.tmp")
    try:
        scratch.write_text(text, encoding="utf-8")
        sync(scratch)
        scratch.replace(file)
    finally:
        scratch.unlink(missing_ok=True)


def without_nan(value: Any) -> Any:
    """Nested values with NaN as None, so that the file is standard JSON."""
    if isinstance(value, Mapping):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sync(path: Path) -> None:
    """Wait until a file, or a directory's entries, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
