"""The files that a comparison replaces: those of an earlier comparison only."""

from pathlib import Path

from multitask.utils.errors import UserError
from multitask.utils.files import read_json
from multitask.utils.outputs import check_replaced, has_keys

FACTS, PAGE = "comparison.json", "report.html"
CURVES, GAPS = "curves.png", "gaps.png"
NAMES = ("table.md", "table.csv", "table.tex", "figure.png", CURVES, GAPS, PAGE)
# the content security policy of every page of ours, and the bytes in which it is
POLICY = b"default-src 'none'; img-src data:; style-src 'unsafe-inline'"
HEAD = 1000


def check_comparison(directory: Path) -> None:
    """Raise UserError if a comparison would replace files that none has written."""
    check_replaced(directory / FACTS, ("baseline", "groups"), NAMES)
    page = directory / PAGE
    if page.is_file() and not page.is_symlink() and not is_page(page):
        raise UserError(f"{page} was not written by this command: choose another --output DIR")


def compared_rows(directory: Path) -> list[str]:
    """Return the names of the rows that a directory's comparison has; none without one."""
    if not has_keys(directory / FACTS, ("groups",)):
        return []
    groups = read_json(directory / FACTS)["groups"]
    named = groups if isinstance(groups, list) else []
    return [str(group["name"]) for group in named if isinstance(group, dict) and "name" in group]


def is_page(file: Path) -> bool:
    """Return True for a page that this program has written, or an earlier version of it."""
    with file.open("rb") as opened:
        return POLICY in opened.read(HEAD)
