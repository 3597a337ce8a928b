"""Paths as a user writes them. Imports no more than `--help` needs."""

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


def check_utf8(path: str) -> None:
    """Raise UserError for a path that is not UTF-8, because a saved config cannot hold it."""
    if any("\ud800" <= letter <= "\udfff" for letter in path):
        raise UserError(f"the path {path!r} is not UTF-8: rename it, or choose another one")
