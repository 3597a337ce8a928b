"""One rule for directories that the user names: empty, or with results of an earlier command."""

from pathlib import Path

from multitask.store.files import entries, read_json
from multitask.utils.errors import UserError

# what commands write first in their directory; each has a key `format`
MARKERS = (
    "comparison.json",
    "paper.json",
    "ensemble.json",
    "sts.json",
    "search.json",
    "ranking.json",
)
# what begins a sweep
SWEEPS = ("grid.yaml", "search.yaml")


def check_output(directory: Path, *markers: str) -> None:
    """Raise UserError unless a directory is empty, or an earlier command has written to it.

    ``markers``: the files of which one must be there; default: any of ours.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise UserError(f"{directory} is a file: choose another --output DIR")
    if entries(directory) and not any(is_ours(directory / n) for n in markers or MARKERS + SWEEPS):
        what = " or ".join(markers) or "result of this program"
        raise UserError(f"{directory} is not empty and has no {what}: choose another --output DIR")


def is_ours(file: Path) -> bool:
    """Return True for a file that marks a directory as one of ours."""
    if file.suffix != ".json":
        return file.is_file()
    try:
        value = read_json(file)
    except (OSError, ValueError, UserError):
        return False
    return isinstance(value, dict) and "format" in value
