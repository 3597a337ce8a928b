"""Paths as a user writes them. Imports no more than `--help` needs."""

import unicodedata
from pathlib import Path

from multitask.utils.errors import UserError


def expand_home(name: str) -> Path:
    """Replace ``~`` in a path by the home directory. Raises UserError if it is unknown."""
    if "\0" in name:
        raise UserError(f"{name!r} is no path: it holds the character NUL")
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise UserError(f"no home directory for {name!r}: write the complete path") from None


def inside(file: Path, directory: Path) -> Path:
    """Return the place of a file of ``directory``, all links followed.

    Raises UserError for a link that leaves ``directory``: somebody else may have made it.
    """
    try:
        place = file.resolve()
        if place.is_relative_to(directory.resolve()):
            return place
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        pass
    raise UserError(f"{file} is a link that leaves {directory}: put a copy in its place")


def check_utf8(path: str) -> None:
    """Raise UserError for a path that is not UTF-8, because a saved config cannot hold it."""
    if any("\ud800" <= letter <= "\udfff" for letter in path):
        raise UserError(f"the path {path!r} is not UTF-8: rename it, or choose another one")


def file_key(name: str) -> str:
    """Return a key that is the same for names that a disk may take for one file name.

    They differ only in upper and lower case, or in their Unicode form (the caseless match D146 of
    the Unicode standard).
    """
    key = unicodedata.normalize("NFD", name)
    for _ in range(2):
        key = unicodedata.normalize("NFKD", key.casefold())
    return key
