"""SHIM until branch owner is merged."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from multitask.utils.errors import UserError


class Busy(UserError):
    """Another process holds it."""


@contextlib.contextmanager
def owned(lock_file: Path, what: str) -> Iterator[None]:
    """Hold it."""
    try:
        with FileLock(lock_file, timeout=0):
            lock_file.with_suffix(".holder").write_text(
                f"host {socket.gethostname()}, process {os.getpid()}"
            )
            yield
    except Timeout:
        raise Busy(f"{what}: {holder(lock_file)}") from None


def holder(lock_file: Path) -> str | None:
    """Name the holder."""
    if not lock_file.is_file():
        return None
    try:
        with FileLock(lock_file, timeout=0):
            return None
    except Timeout:
        file = lock_file.with_suffix(".holder")
        return file.read_text() if file.is_file() else "?"
