"""``metrics.jsonl``: what happened in a run, line by line."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from multitask.utils import distributed
from multitask.utils.files import without_nan


class Log:
    """One JSON object a line, cut back to a checkpoint's length on resume; rank 0 alone writes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        # unbuffered: a line is in the file or, on a full disk, an error at once
        self._opened = file.open("ab", buffering=0) if distributed.rank() == 0 else None
        self._hear: Callable[[Mapping[str, Any]], None] = lambda line: None

    def listen(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        """Pass every further line on to ``hear``, on rank 0."""
        self._hear = hear

    def write(self, event: str, **values: Any) -> None:
        """Append a line; NaN becomes null."""
        line = {"event": event, **without_nan(values)}
        if self._opened:
            self._opened.write((json.dumps(line) + "\n").encode())
            self._hear(line)

    def close(self) -> None:
        """Write no more."""
        if self._opened:
            self._opened.close()

    def size(self) -> int:
        """Bytes that are safely on disk."""
        if self._opened is None:
            return 0
        os.fsync(self._opened.fileno())
        return os.fstat(self._opened.fileno()).st_size

    def truncate(self, size: int) -> None:
        """Forget what was written after ``size`` bytes."""
        if self._opened:
            self._opened.truncate(size)
