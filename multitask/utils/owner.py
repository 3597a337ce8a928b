"""Who owns a directory: one process at a time, known to all processes by a lock on a file in it.

The system frees the lock when its process ends, however it ends. A suspended process keeps it.
"""

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from multitask.utils.errors import TryAgain, UserError

# seconds to try: `holder` of another process may have the lock for a moment
PATIENCE = 1.0
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
LONGEST_NAME = 500  # bytes


class Busy(TryAgain):
    """Another process owns the directory."""


@contextlib.contextmanager
def owned(
    lock_file: Path, what: str, *, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Own the directory of a lock file during the block; make the directory if it is missing.

    A block inside another one of the same file, thread and process owns it already. The file stays:
    if it were deleted, two processes could lock two files of one name.

    Args:
        lock_file: a file in the directory; it gets the name of this process.
        what: what its owner does, for the message, such as ``trains there``.
        waiting: wait for another owner; called once with its name. Without it, do not wait.

    Raises:
        Busy: another process owns the directory.
        UserError: the file system has no locks.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_file, is_singleton=True, fallback_to_soft=False)
    if lock.is_locked:
        yield
        return
    try:
        try:
            lock.acquire(timeout=PATIENCE)
        except Timeout:
            name = holder(lock_file) or "which has just begun or ended"
            if waiting is None:
                raise Busy(
                    f"{lock_file.parent}: another process {what} ({name}): wait for it, or choose "
                    "another directory"
                ) from None
            waiting(name)
            lock.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise UserError(
            f"{lock_file.parent}: its file system cannot lock files ({error.strerror}): mount it "
            "with locks (docs/robustness.md), or choose a directory on another one"
        ) from error
    try:
        _sign(lock_file)
        yield
    finally:
        lock.release()


def holder(lock_file: Path) -> str | None:
    """Return the name of the process that holds a lock file; None if it is free.

    A name is ``host gpu-1, process 4711``, and ``, job 12`` under SLURM.
    """
    try:
        opened = lock_file.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        return None
    with opened:
        try:
            # shared, as NFS gives no exclusive lock on a file that is opened to read
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            name = opened.read(LONGEST_NAME).decode(errors="replace")
            return name or "a process that has just begun"
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
    return None


def _sign(lock_file: Path) -> None:
    """Write this process's name into its lock file."""
    handle = os.open(lock_file, os.O_WRONLY | os.O_NOFOLLOW)
    with os.fdopen(handle, "wb") as opened:
        if os.fstat(handle).st_nlink == 1:  # else a backup of hard links has it, too
            opened.truncate(0)
            opened.write(_own_name().encode(errors="replace"))


def _own_name() -> str:
    name = f"host {socket.gethostname()}, process {os.getpid()}"
    job = os.environ.get("SLURM_JOB_ID")
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    return f"{name}, job {job}" if job else name
