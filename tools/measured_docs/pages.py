"""Fill the measured blocks of the pages in docs/ and docs/measured/.

A page asks for a table with a line ``<!-- measured: KIND NAME -->``. The table follows, then
``<!-- end -->``. ``KINDS`` maps each kind to the function that writes its table.
"""

import re
from collections.abc import Callable
from pathlib import Path

from tools import benchmark_goals
from tools.measured_docs import (
    diagrams,
    findings,
    grid_tables,
    open_cells,
    run_tables,
    text_excerpts,
)
from tools.measured_docs.store import DOCS

BLOCK = re.compile(r"(<!-- measured: (\w+) ?([^\n]*) -->\n).*?(<!-- end -->\n)", re.DOTALL)

NOTHING = "Not measured yet.\n"
KINDS: dict[str, Callable[[str], str | None]] = {
    "findings": findings.findings,
    "presets": run_tables.presets,
    "runs": run_tables.runs,
    "conflict": run_tables.conflict,
    "epochs": run_tables.epochs,
    "importance": run_tables.importance,
    "layers": run_tables.layers,
    "sheet": grid_tables.sheet,
    "summary": grid_tables.summary,
    "metrics": grid_tables.metrics,
    "says": grid_tables.says,
    "paired": grid_tables.paired,
    "effects": grid_tables.effects,
    "together": grid_tables.together,
    "printed": grid_tables.printed,
    "open_cells": open_cells.open_cells,
    "excerpt": text_excerpts.excerpt,
    "lines": text_excerpts.lines,
    "benchmark": text_excerpts.benchmark,
    "goals": benchmark_goals.goals,
    "diagram": diagrams.diagram_of,
}


def measured_pages() -> list[Path]:
    """List the pages with measured blocks."""
    pages = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "measured").glob("*.md"))]
    return [page for page in pages if BLOCK.search(page.read_text())]


def renew(text: str) -> str:
    """Return the text of a page with its measured blocks renewed."""

    def block(match: re.Match[str]) -> str:
        begin, kind, name, end = match.groups()
        try:
            return begin + (KINDS[kind](name) or NOTHING) + end
        except FileNotFoundError:  # its file is not in docs/results/
            return begin + NOTHING + end

    return BLOCK.sub(block, text)
