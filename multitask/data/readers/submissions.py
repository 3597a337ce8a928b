"""Find one file in what a group handed in: a folder, or a zip archive, which is not unpacked.

Others made these: links are not followed, and nothing is read beyond the limits.
"""

import os
import re
import zipfile
from pathlib import Path

from multitask.store.files import entries
from multitask.utils.errors import UserError, reading
from multitask.utils.limits import ARCHIVE_BYTES, ARCHIVE_FILES, PREDICTION_BYTES, read_bounded


def submissions(directory: Path) -> list[Path]:
    """Return what the groups handed in, by name; hidden files and those of macOS are left out."""
    if not directory.is_dir():
        raise UserError(f"{directory}: no such directory")
    found = [path for path in entries(directory) if not path.name.startswith((".", "__MACOSX"))]
    if not found:
        raise UserError(f"{directory}: no submissions: expected a folder or zip per group")
    return sorted(found)


def read_submitted(place: Path, name: str) -> tuple[bytes, str]:
    """Return the content of the one file ``name``, in any folder of ``place``, and its source.

    Raises UserError if there is none or more than one, for a damaged archive, and beyond a limit.
    """
    if place.is_symlink() or not (place.is_dir() or place.suffix.lower() == ".zip"):
        raise UserError(f"{place}: neither a folder nor a zip archive")
    if place.is_dir():
        file = _only([str(file) for file in _files(place) if file.name == name], place, name)
        return read_bounded(Path(file), PREDICTION_BYTES), file
    if place.stat().st_size > ARCHIVE_BYTES:
        raise UserError(f"{place}: larger than {ARCHIVE_BYTES:,} bytes, the most that is read")
    with reading(place), zipfile.ZipFile(place) as archive:
        members = archive.infolist()
        _check_count(len(members), place)
        named = [member for member in members if re.split(r"[/\\]", member.filename)[-1] == name]
        file = _only([member.filename for member in named], place, name)
        with archive.open(named[0]) as opened:  # the size in the archive may be a lie
            raw = opened.read(PREDICTION_BYTES + 1)
    source = f"{place}: {file}"
    if len(raw) > PREDICTION_BYTES:
        raise UserError(f"{source}: larger than {PREDICTION_BYTES:,} bytes, the most that is read")
    return raw, source


def _files(place: Path) -> list[Path]:
    """Return the files of a folder and of those in it, without links."""
    files: list[Path] = []
    for folder, _, names in os.walk(place):
        files += [Path(folder, name) for name in names]
        _check_count(len(files), place)
    return sorted(file for file in files if file.is_file() and not file.is_symlink())


def _check_count(count: int, place: Path) -> None:
    if count > ARCHIVE_FILES:
        raise UserError(f"{place}: more than {ARCHIVE_FILES:,} files, the most that are read")


def _only(found: list[str], place: Path, name: str) -> str:
    if len(found) != 1:
        what = f"{len(found)} files {name}: {found[0]}, {found[1]}" if found else f"no file {name}"
        raise UserError(f"{place}: {what}")
    return found[0]
