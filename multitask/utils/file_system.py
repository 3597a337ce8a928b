"""Volumes, the modes of new files, and the clock of a file system."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from multitask.utils.errors import UserError

# what a file system keeps in the root of a volume
OF_VOLUME = "lost+found"
# the lock of the process that owns a directory: see `owner`
OWNER_LOCK = "owner.lock"


def stays(directory: Path) -> bool:
    """Return True for a directory that cannot be renamed: a volume, or its parent is read-only."""
    place = directory.resolve()
    return is_volume(place) or not os.access(place.parent, os.W_OK)


def is_volume(place: Path) -> bool:
    """Return True for a mount point."""
    if place.is_mount():
        return True
    name = os.fsencode(place)
    for letter in b"\\ \t\n":  # as the kernel writes them
        name = name.replace(bytes([letter]), b"\\%03o" % letter)
    with contextlib.suppress(OSError):  # a part of a file system that is mounted into it again
        mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
        return any(line.split()[4] == name for line in mounts)
    return False


def check_no_volume_in(directory: Path) -> None:
    """Raise UserError if a volume is mounted in a directory: it cannot be moved or deleted."""
    for path in directory.iterdir():
        if path.is_dir() and path.is_mount():
            raise UserError(f"{path} is a volume, so {directory} is not replaced: unmount it first")


def make_like(made: Path, target: Path) -> None:
    """Give a directory the group and the mode of the one that it replaces."""
    status = target.stat()
    with contextlib.suppress(PermissionError):  # a group that this user is not in
        os.chown(made, -1, status.st_gid)
    made.chmod(stat.S_IMODE(status.st_mode))


def usual_mode(directory: Path) -> int:
    """Return the mode of a new file. The umask can only be read by changing it."""
    probe = directory / ".mode"
    probe.touch()
    mode = stat.S_IMODE(probe.stat().st_mode)
    probe.unlink()
    return mode


def time_of(directory: Path) -> float:
    """Return the time of a file system's clock: this machine may have another one."""
    with tempfile.TemporaryFile(dir=directory) as probe:
        return os.fstat(probe.fileno()).st_mtime
