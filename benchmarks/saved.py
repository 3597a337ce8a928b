"""The tables that the benchmarks wrote."""

from itertools import groupby
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
TABLES = DOCS / "results" / "benchmarks"


def read_rows(file: Path) -> list[dict[str, str]]:
    """The rows of all Markdown tables of a file, by column."""
    found = []
    lines = file.read_text(encoding="utf-8").splitlines()
    for is_table, some in groupby(lines, lambda line: line.startswith("|")):
        if is_table:
            header, _, *rows = ([c.strip() for c in line.strip("| ").split("|")] for line in some)
            found += [dict(zip(header, row, strict=True)) for row in rows]
    return found
