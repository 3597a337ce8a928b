"""Tables of grids (`ablate`, `report`) and of papers (`table`)."""

import json
from collections.abc import Sequence
from typing import Any

from scipy.stats import ttest_rel

from multitask.reporting import sheet_tables
from multitask.reporting.layout import load_layout
from multitask.reporting.sheet_tables import paper_markdown
from multitask.reporting.statistics import holm
from multitask.reporting.table_formats import Table, markdown, number
from multitask.reporting.verdicts import Compared, sentence
from tools.measured_docs.store import RESULTS, ROOT, StoredComparison, StoredPaper, source_line

GRIDS = RESULTS / "grids"
PAPERS = RESULTS / "papers"


def load_grid(name: str) -> StoredComparison | None:
    """Load a stored comparison; return None if it was not measured yet."""
    file = GRIDS / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def load_paper(name: str) -> StoredPaper | None:
    """Load a stored table of a paper; return None if it was not measured yet."""
    file = PAPERS / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def _notes(comparison: StoredComparison) -> list[str]:
    """Write what a reader must know, such as missing runs: one list of lines, or nothing."""
    notes = "\n".join(f"- {note}" for note in comparison["notes"])
    return [notes] if notes else []


def grid(name: str) -> str | None:
    """Write all tables of a grid, and their source."""
    comparison = load_grid(name)
    if comparison is None:
        return None
    parts = [
        f"{markdown(title)}:\n\n{table.markdown()}"
        for title, table in sheet_tables.titled_tables(comparison)
    ]
    return "\n\n".join([*parts, *_notes(comparison), source_line(comparison["source"])]) + "\n"


def scores(name: str) -> str | None:
    """Write a grid's dev scores with the difference of the mean and the time, and their source.

    The grid's page has the rest: the held-out rows, and the difference of each task.
    """
    comparison = load_grid(name)
    if comparison is None:
        return None
    score_table = sheet_tables.score_table(comparison)
    header, rows = [*score_table.header], [[*row] for row in score_table.rows]
    difference = (
        f"mean: {sheet_tables.difference_title(comparison).replace('Difference', 'difference')}"
    )
    for title, other in (
        (difference, sheet_tables.difference_table(comparison)),
        ("time of an epoch", sheet_tables.time_table(comparison)),
    ):
        if other is not None:
            last = {name: cells[-1] for name, *cells in other.rows}
            header.append(title)
            rows = [[*row, last.get(row[0], "-")] for row in rows]
    table = Table(header, rows, score_table.marked).markdown()
    return "\n\n".join([table, *_notes(comparison), source_line(comparison["source"])]) + "\n"


def paired(name: str) -> str | None:
    """Write the difference of the second of two groups to the first, for a grid of such pairs.

    The test is scipy's paired t-test over seeds, which takes the dev rows as fixed. p is corrected
    over the pairs by Holm's method.
    """
    comparison = load_grid(name)
    if comparison is None:
        return None
    groups = comparison["groups"]
    pairs = list(zip(groups[::2], groups[1::2], strict=True))
    rows = [[f"{second['name']} - {first['name']}"] for first, second in pairs]
    said = []
    for column, title in enumerate(sheet_tables.columns(comparison)):
        compared = []
        entries: list[list[Any]] = [
            [sheet_tables.entries(comparison, group)[column] for group in pair] for pair in pairs
        ]
        tests = [ttest_rel(second["values"], first["values"]) for first, second in entries]
        corrected = holm([test.pvalue for test in tests])
        for row, (first, second), test, p in zip(rows, entries, tests, corrected, strict=True):
            low, high = test.confidence_interval(comparison["confidence"])
            gain: Any = {
                "value": second["mean"] - first["mean"],
                "low": low,
                "high": high,
                "p_holm": p,
            }
            row.append(sheet_tables.difference_cell(gain))
            compared.append(Compared(row[0], gain))
        said.append(f"- {markdown(sentence(title, compared))}")
    table = Table(("over seeds", *sheet_tables.columns(comparison)), rows)
    return "\n".join([table.markdown(), "", *said]) + "\n"


def printed(name: str) -> str:
    """Write what a paper prints, from the layout ``configs/NAME.yaml``; nothing is computed."""
    layout = load_layout(ROOT / "configs" / f"{name}.yaml")
    keys = [key for key, row in layout.rows.items() if row.printed]
    columns = {
        column.title: [layout.rows[key].printed[place] for key in keys]
        for place, column in enumerate(layout.columns)
    }
    title = layout.averages if isinstance(layout.averages, str) else "average"
    columns[title] = [layout.rows[key].average for key in keys]
    shown = {title: _as_printed(values) for title, values in columns.items() if any(values)}
    point = f"{layout.curve} = " if layout.curve else ""
    names = [point + (layout.rows[key].title or key) for key in keys]
    table = Table(("", *shown), list(zip(names, *shown.values(), strict=True)))
    note = f"Printed: {layout.source}." if layout.source else ""
    return "\n\n".join(filter(None, [table.markdown(), note])) + "\n"


def _as_printed(values: Sequence[float | None]) -> list[str]:
    """Write each value with its decimals; to a shorter one zeros are added, up to two decimals.

    YAML drops the zeros of a printed 4.30. Values with more than two decimals stay as they are.
    """
    decimals = [0 if v is None else len(str(v).partition(".")[2]) for v in values]
    least = min(2, max(decimals))
    return [
        number(value, f".{max(count, least)}f")
        for value, count in zip(values, decimals, strict=True)
    ]


def paper(name: str) -> str | None:
    """Write a paper's table with our values in it, and their source."""
    stored = load_paper(name)
    return None if stored is None else _as_page(stored)


def ours(name: str) -> str | None:
    """Write our scores and differences of a paper's table; its page has the rest."""
    stored = load_paper(name)
    if stored is None:
        return None
    table = stored["table"]
    for cell in filter(None, (cell for row in table["rows"] for cell in row["cells"])):
        cell.update({"printed": None, "epoch_seconds": None, "dev_seconds": None})
    table.update({"source": None, "paper": None, "averages": []})
    return _as_page(stored)


def _as_page(stored: StoredPaper) -> str:
    """Write the tables and their notes; a separate block has the verdicts (``says``)."""
    stored["table"]["verdicts"] = []
    text = paper_markdown(stored["table"]).partition("\n\n")[2].replace("## ", "### ")
    return f"{text}\n{source_line(stored['source'])}\n"
