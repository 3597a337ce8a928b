"""Who owns a directory: a lock file that one process holds, also for other machines."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from multitask.utils.errors import TryAgain

PATIENCE = 1.0  # seconds: `holder` has the lock for a moment
JOBS = ("SLURM_JOB_ID", "RAY_JOB_ID")


class Busy(TryAgain):
    """Another process holds the lock."""


@contextmanager
def owned(lock_file: Path, what: str) -> Iterator[None]:
    """Hold a lock for the block. Its file stays, and names the holder until the block ends.

    Raises Busy if another process holds it; ``what`` begins the message.
    """
    lock = FileLock(lock_file, timeout=PATIENCE, fallback_to_soft=False, on_acquired=_sign)
    try:
        lock.acquire()
    except Timeout:
        raise Busy(f"{what} is held by {holder(lock_file) or 'another process'}") from None
    try:
        yield
    finally:
        lock_file.write_bytes(b"")
        lock.release()


def holder(lock_file: Path) -> str | None:
    """Name the holder of a lock, such as ``host gpu-1, process 4711``; None if it is free."""
    if not lock_file.is_file():
        return None
    probe = FileLock(lock_file, timeout=0, fallback_to_soft=False, preserve_lock_file=True)
    try:
        with probe:
            return None
    except Timeout:
        try:
            return str(json.loads(lock_file.read_text(encoding="utf-8")))
        except (OSError, ValueError):  # it is being written, or deleted
            return "another process"


def in_use(lock_file: Path) -> bool:
    """Return True if a process holds the lock, or was killed while it did."""
    return lock_file.is_file() and lock_file.stat().st_size > 0


def _sign(handle: int) -> None:
    """Write the holder into the locked file."""
    jobs = [f"job {os.environ[name]}" for name in JOBS if name in os.environ]
    text = ", ".join([f"host {socket.gethostname()}", f"process {os.getpid()}", *jobs])
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(text).encode(), 0)
