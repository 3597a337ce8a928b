"""Read the tables that the benchmarks printed, in docs/results/benchmarks/."""

from itertools import groupby
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
TABLES = DOCS / "results" / "benchmarks"


def read_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of all Markdown tables of a file, each as a dict by column."""
    rows = []
    lines = file.read_text(encoding="utf-8").splitlines()
    for is_table, block in groupby(lines, lambda line: line.startswith("|")):
        if is_table:
            header, _, *cells = (
                [c.strip() for c in line.strip()[1:-1].split("|")] for line in block
            )
            rows += [dict(zip(header, row, strict=True)) for row in cells]
    return rows
