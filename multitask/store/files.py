"""Write files and directories completely or not at all; standard JSON; checksums. No torch here."""

import contextlib
import ctypes
import errno
import glob
import hashlib
import json
import math
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from multitask.utils.errors import UserError, check_regular
from multitask.utils.limits import DATA_BYTES, JSON_BYTES, read_bounded

# how the names of scratch directories start and end
SCRATCH, ENDING = ".multitask-", ".tmp"
# scratch files and directories at any depth, for `remove_scraps`
ANYWHERE = f"**/.*{ENDING}"
# what the name of an old directory gets, in a scratch directory, where the system cannot swap two
BEFORE = ".before"
# the lock of the process that owns a directory: see `lock.py`
OWNER_LOCK = "owner.lock"
CHECKSUMS = "SHA256SUMS"
DAY = 24 * 60 * 60.0


@contextlib.contextmanager
def replacing(target: Path, *, fresh: bool = False) -> Iterator[Path]:
    """Yield a path for a new file or directory; it replaces ``target`` after the block.

    ``target`` is never half written: after an exception, a full disk or a kill it is unchanged. The
    path is in a new directory with a random name that only this user can enter, so two processes
    can write the same file. If ``target`` was a directory, the old one is deleted; the new one gets
    its mode.

    With ``fresh``, raise UserError if ``target`` is a directory with content by then. An OSError
    names ``target``.
    """
    try:
        with _scratch_in(target.parent) as scratch:
            made = scratch / target.name
            yield made
            _complete(made, scratch)
            if target.is_dir() and not fresh:
                made.chmod(stat.S_IMODE(target.stat().st_mode))
                if _exchange(made, target):
                    return
                target.rename(made.with_name(target.name + BEFORE))
            made.replace(target)  # a kill before this line: see `finish_replacing`
    except OSError as error:
        if fresh and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise UserError(f"{target}: something is there already: choose another name") from error
        if error.errno and (error.filename is None or SCRATCH in str(error.filename)):
            error.filename, error.filename2 = str(target), None
        raise


@contextlib.contextmanager
def _scratch_in(directory: Path) -> Iterator[Path]:
    """Make a directory for the block and lock it, so that ``remove_scraps`` does not delete it."""
    with contextlib.ExitStack() as stack:
        while True:
            made = Path(tempfile.mkdtemp(ENDING, SCRATCH, directory))
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                if stack.enter_context(hold(made)) and made.is_dir():
                    break
        try:
            yield made
        finally:
            _clear(made)


def _complete(made: Path, scratch: Path) -> None:
    """Wait until everything is on disk; files of libraries get the mode that the umask leaves.

    Some libraries make files that only this user can read.
    """
    probe = scratch / ".mode"  # the umask can only be read by changing it
    probe.touch()
    usual = stat.S_IMODE(probe.stat().st_mode)
    for path in (made, *made.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & 0o077:
            searched = (usual & 0o444) >> 2 if path.is_dir() else 0
            path.chmod(mode | usual | searched)
        sync(path)


def _exchange(made: Path, target: Path) -> bool:
    """Swap two directories in one step; return False if the system cannot do that."""
    cwd, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    try:
        new, old = os.fsencode(made), os.fsencode(target)
        return not ctypes.CDLL(None).renameat2(cwd, new, cwd, old, swap)
    except AttributeError:  # not Linux
        return False


def _clear(scratch: Path) -> None:
    """Delete a scratch directory; if it has the only copy of its target, move that in place."""
    for before in scratch.glob(f"*{BEFORE}"):
        made = before.with_name(before.name.removesuffix(BEFORE))
        target = scratch.with_name(made.name)
        if made.exists() and not target.exists():
            made.rename(target)
    shutil.rmtree(scratch, ignore_errors=True)


def finish_replacing(target: Path) -> None:
    """Put a directory in its place if the process that replaced it was killed between two renames.

    Where the system can swap two directories in one step, that does not occur.
    """
    place = target.resolve()
    if not place.exists():
        # unlike ``Path.glob``, directories may vanish meanwhile
        names = f"{SCRATCH}*{ENDING}/{glob.escape(place.name + BEFORE)}"
        for name in glob.glob(names, root_dir=place.parent, include_hidden=True):  # noqa: PTH207
            remove_scraps(place.parent, Path(name).parent.name)


def remove_scraps(
    directory: Path, pattern: str = f"{SCRATCH}*{ENDING}", *, seconds: float = 0
) -> None:
    """Delete the scratch files of killed processes in ``directory``, not those of running ones.

    ``seconds`` is the least age of a deleted file. Set it where other hosts may write too, because
    their locks are not visible here.
    """
    for scrap in list(directory.glob(pattern)):
        # another process was faster, or it is of another user
        with contextlib.suppress(FileNotFoundError, PermissionError):
            # a file from the future is as old: nobody writes it now
            if seconds and abs(time.time() - scrap.lstat().st_mtime) < seconds:
                continue
            if scrap.is_symlink() or not scrap.is_dir():
                scrap.unlink()
                continue
            with hold(scrap) as locked:
                if locked:
                    _clear(scrap)


@contextlib.contextmanager
def hold(directory: Path) -> Iterator[bool]:
    """Lock a directory for the block; yield False if another process of this host has it.

    Yields True on a file system without locks.
    """
    import fcntl

    handle = os.open(directory, os.O_RDONLY)
    try:
        held = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held = not isinstance(error, BlockingIOError)
        yield held
    finally:
        os.close(handle)


def entries(directory: Path) -> list[Path]:
    """List a directory, without its lock and the scratch files that a killed process leaves."""
    return [
        path
        for path in directory.iterdir()
        if path.name != OWNER_LOCK
        and not (path.name.startswith(".") and path.name.endswith(ENDING))
    ]


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a directory, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_to_append(file: Path) -> FileIO:
    """Open a file to append to it, unbuffered. Raises UserError for a link, a pipe or a device."""
    if file.is_symlink():
        raise UserError(f"{file} is a link, and a run writes only in its directory: remove it")
    check_regular(file)
    return FileIO(file, "ab")


# --- text and JSON ---


def write_text(file: Path, text: str) -> None:
    """Write a text file, complete or not at all."""
    with replacing(file) as scratch:
        scratch.write_bytes(_encoded(text))


def write_json(file: Path, value: Any) -> None:
    """Write a value as standard JSON (NaN becomes null), complete or not at all."""
    write_text(file, json_text(value))


def read_json(file: Path) -> Any:
    """Return the value of a JSON file. Raises ValueError if it is damaged."""
    try:
        return json.loads(read_bounded(file, DATA_BYTES).decode("utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_text(value: Any) -> str:
    """Return a value as standard JSON (NaN becomes null)."""
    return json.dumps(without_nan(value), indent=1)


def without_nan(value: Any) -> Any:
    """Replace NaN and infinity by None in nested values: standard JSON has neither."""
    if isinstance(value, Mapping):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _encoded(text: str) -> bytes:
    """Encode a text in UTF-8; half a character, as in a path, becomes ``\\udcff`` as in JSON."""
    return text.encode(errors="backslashreplace")


# --- checksums ---


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(_encoded(text)).hexdigest()


def file_digests(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a directory by name, see ``entries``."""
    return {file.name: file_digest(file) for file in sorted(entries(directory))}


def changed_file(directory: Path, digests: Mapping[str, str | Sequence[str]]) -> str | None:
    """Return the first name whose file is missing or has none of its valid digests; else None."""
    for name, valid in digests.items():
        file = directory / name
        if file.parent != directory or not file.is_file() or file_digest(file) not in valid:
            return name
    return None


def digest_lines(digests: Mapping[str, str]) -> str:
    """Return digests by name as lines for ``sha256sum --check``."""
    return "".join(f"{digest}  {name}\n" for name, digest in digests.items())


def read_digests(file: Path) -> dict[str, list[str]]:
    """Return the valid digests by name in a file of ``digest_lines``; nothing without the file."""
    digests: dict[str, list[str]] = {}
    if file.is_file():
        lines = read_bounded(file, JSON_BYTES).decode("utf-8", "replace").split("\n")
        for digest, _, name in (line.partition("  ") for line in lines if line):
            digests.setdefault(name, []).append(digest)
    return digests


def check_checksums(directory: Path) -> None:
    """Raise UserError if a file of a directory is not as its ``CHECKSUMS`` say."""
    name = changed_file(directory, read_digests(directory / CHECKSUMS))
    if name is not None:
        raise UserError(
            f"{directory}: {name!r} is damaged (its checksum is not the one in {CHECKSUMS}): "
            "resume the run, which writes it anew, or train it again"
        )
