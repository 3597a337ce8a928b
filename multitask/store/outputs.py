"""In a directory that the user names, a command replaces only the files that it has written."""

from collections.abc import Iterable
from pathlib import Path

from multitask.store.files import read_json
from multitask.utils.errors import UserError


def check_replaced(facts: Path, keys: Iterable[str], names: Iterable[str]) -> None:
    """Raise UserError if a command would replace a file that it has not written.

    Args:
        facts: the JSON file that the command writes first.
        keys: keys that this file has; then the other files are the command's, too.
        names: the other files, in the same directory.
    """
    if has_keys(facts, keys):
        return
    for file in (facts, *(facts.with_name(name) for name in names)):
        if file.exists() and not file.is_symlink():  # of a link, the link alone is replaced
            raise UserError(f"{file} was not written by this command: choose another --output")


def has_keys(file: Path, keys: Iterable[str]) -> bool:
    """Return True for a JSON file with an object that has all ``keys``."""
    try:
        value = read_json(file)
    except (OSError, ValueError, UserError):
        return False
    return isinstance(value, dict) and set(keys) <= value.keys()
