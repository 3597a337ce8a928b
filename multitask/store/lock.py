"""Who owns a directory: one process at a time, known to all others by a lock on a file in it.

- The system frees the lock when its process ends, however it ends. A suspended process keeps it.
- The file has the name of the process. The process removes its name at the end, also after a
  UserError. So a name without a lock is that of a process that was killed or has failed.
- The file stays in a directory with content: if it were deleted, two processes could each lock a
  file of this name.
"""

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from multitask.store.files import entries
from multitask.utils.errors import TryAgain, UserError

# seconds to try: `holder` of another process has the lock for a moment
PATIENCE = 1.0
# what the system says where a file system has no locks
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
LONGEST_NAME = 500  # bytes


class Busy(TryAgain):
    """Another process owns the directory."""


@contextlib.contextmanager
def owned(
    lock_file: Path, what: str, *, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Own the directory of a lock file during the block.

    The directory is made if it is missing, and removed again if the block leaves it empty. A block
    inside another one of the same file, process and thread does nothing.

    Args:
        lock_file: the path of the lock file.
        what: what an owner does, for the message, such as ``trains there``.
        waiting: is called once with the name of another owner, which is then waited for. Without
            it, another owner is an error.

    Raises:
        Busy: another process owns the directory.
        UserError: the file system has no locks.
    """
    lock = FileLock(lock_file, is_singleton=True, fallback_to_soft=False)
    if lock.is_locked:
        yield
        return
    made = _acquire(lock, lock_file, what, waiting)
    try:
        yield
        _remove_name(lock_file)
    except UserError:  # refused, or what it did is saved: nothing is half done
        _remove_name(lock_file)
        raise
    finally:
        _remove_empty(lock_file, made)
        lock.release()


def holder(lock_file: Path) -> str | None:
    """Return the name of the process that has the lock; None if it is free or missing.

    The name is ``host gpu-1, process 4711``, and under SLURM ``host gpu-1, process 4711, job 12``.
    """
    try:
        opened = lock_file.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        return None
    with opened:
        try:
            # shared, as NFS gives an exclusive lock only on a file that is opened to write
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            name = opened.read(LONGEST_NAME).decode(errors="replace")
            return name or "it has just begun"
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
    return None


def is_unfinished(lock_file: Path) -> bool:
    """Return True if an owner is at work, or the last one was killed or has failed."""
    try:
        return lock_file.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False


def _acquire(
    lock: FileLock, lock_file: Path, what: str, waiting: Callable[[str], None] | None
) -> list[Path]:
    """Acquire the lock and write this process's name; return the directories that were made."""
    directory = lock_file.parent
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    patience = PATIENCE
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=patience)
            _write_name(lock_file)
            return missing
        except FileNotFoundError:  # its last owner has removed it again
            lock.release()
        except Timeout:
            name = holder(lock_file) or "it has just ended"
            if waiting is None:
                raise Busy(
                    f"{directory}: another process {what} ({name}): wait for it, or choose another "
                    "directory"
                ) from None
            waiting(name)
            patience = -1
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            raise UserError(
                f"{directory}: its file system cannot lock files ({error.strerror}): mount it with "
                "locks (docs/clusters.md), or choose a directory on another one"
            ) from error


def _write_name(lock_file: Path) -> None:
    handle = os.open(lock_file, os.O_WRONLY | os.O_NOFOLLOW)
    with os.fdopen(handle, "wb") as opened:
        opened.truncate(0)
        opened.write(_own_name())


def _remove_name(lock_file: Path) -> None:
    """Remove the name of this process, not that of another one in a directory that was replaced."""
    with contextlib.suppress(FileNotFoundError):
        if lock_file.read_bytes() == _own_name():
            os.truncate(lock_file, 0)


def _remove_empty(lock_file: Path, made: list[Path]) -> None:
    """Remove the directories that were made for the lock if there is nothing else in them."""
    with contextlib.suppress(OSError):
        if made and not entries(lock_file.parent):
            lock_file.unlink()
            for directory in made:
                directory.rmdir()


def _own_name() -> bytes:
    name = f"host {socket.gethostname()}, process {os.getpid()}"
    job = os.environ.get("SLURM_JOB_ID")
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID')}"
    return (f"{name}, job {job}" if job else name).encode(errors="replace")
