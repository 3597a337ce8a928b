"""Files and directories that are complete or absent, and standard JSON. No torch here."""

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from multitask.utils.errors import UserError

# names of scratch directories start and end so
SCRATCH, ENDING = ".multitask-", ".tmp"


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a path to write a file or a directory to; it becomes ``target`` after the block.

    ``target`` is never seen half written: after an exception, a full disk or a kill it is what it
    was before. The path is in a new directory that only this user can enter and whose name nobody
    can foresee, so two processes that write one file do not disturb each other.

    Raises OSError with the name of ``target``.
    """
    scratch = None
    try:
        scratch = Path(tempfile.mkdtemp(ENDING, SCRATCH, target.parent))
        with hold(scratch):
            made = scratch / target.name
            yield made
            for path in (made, *made.rglob("*")):
                sync(path)
            if target.is_dir():
                discard(target)
            made.replace(target)
    except OSError as error:
        if error.errno and (error.filename is None or SCRATCH in str(error.filename)):
            error.filename, error.filename2 = str(target), None
        raise
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def discard(directory: Path) -> None:
    """Delete a directory: it is gone at once, even if the process is killed meanwhile."""
    aside = Path(tempfile.mkdtemp(ENDING, SCRATCH, directory.parent))
    directory.rename(aside / directory.name)
    shutil.rmtree(aside)


def remove_scraps(directory: Path, pattern: str = f"{SCRATCH}*{ENDING}") -> None:
    """Delete what killed processes left half written in ``directory``; running ones keep theirs."""
    for scrap in list(directory.glob(pattern)):
        if not scrap.is_dir():
            scrap.unlink(missing_ok=True)
            continue
        with contextlib.suppress(FileNotFoundError), hold(scrap) as ours:
            if ours:
                shutil.rmtree(scrap, ignore_errors=True)


@contextlib.contextmanager
def hold(directory: Path) -> Iterator[bool]:
    """Lock a directory for the block; yield False if another process of this host holds it.

    A file system without locks always says True.
    """
    import fcntl

    handle = os.open(directory, os.O_RDONLY)
    try:
        held = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = False
        except OSError:
            pass
        yield held
    finally:
        os.close(handle)


def expand_home(name: str) -> Path:
    """A path with ``~`` as the home directory. Raises UserError where there is none."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise UserError(f"no home directory for {name!r}: write the complete path") from None


def read_bounded(file: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes.

    Raises UserError for a larger file and for what is no file, such as a pipe or a device.
    """
    mode = file.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not stat.S_ISREG(mode):
        raise UserError(f"{file}: neither a file nor a link to one: give the name of a file")
    with file.open("rb") as opened:
        content = opened.read(limit + 1)
    if len(content) > limit:
        raise UserError(f"{file}: larger than {limit:,} bytes, the most that is read")
    return content


def file_digest(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def write_text(file: Path, text: str) -> None:
    """Write a text file, complete or not at all."""
    with replacing(file) as scratch:
        scratch.write_text(text, encoding="utf-8")


def write_json(file: Path, value: Any) -> None:
    """Write a value as standard JSON (NaN becomes null), complete or not at all."""
    write_text(file, json.dumps(without_nan(value), indent=1))


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
