"""Rank the printed differences that our intervals cannot judge, by what it costs to judge them."""

import math
import statistics

from multitask.reporting.sheet import Cell, baseline_of
from multitask.reporting.table_formats import Table, difference, signed
from multitask.reporting.verdicts import CANNOT_TELL, compared, verdict
from tools.measured_docs.grid_tables import load_sheet
from tools.measured_docs.store import RESULTS, StoredSheet

SHOWN = 20  # rows of the table; the others are counted


def open_cells(_: str) -> str:
    """Write the cells of all papers' tables whose printed difference we "cannot tell".

    An interval is taken to shrink with the root of the number of seeds. The noise of the dev rows
    does not shrink, so this is the least number of seeds whose half interval is as small as the
    printed difference. The hours are those of the missing seeds, of a row and its baseline.
    """
    rows = []
    for file in sorted((RESULTS / "papers").glob("*.json")):
        rows += _of_sheet(file.stem, load_sheet(f"papers/{file.stem}"))
    rows.sort(key=lambda row: row[0])
    header = (
        "table",
        "row, column",
        "printed",
        "ours",
        "half interval / printed",
        "seeds",
        "needed at least",
        "CPU hours at least",
    )
    table = Table(header, [cells for _, cells in rows[:SHOWN]])
    lines = [table.markdown()]
    if len(rows) > SHOWN:
        left = len(rows) - SHOWN
        lines.append(f"{left} more cells need more hours, or no time of theirs is kept.")
    return "\n\n".join(lines) + "\n"


def _of_sheet(name: str, sheet: StoredSheet) -> list[tuple[float, list[str]]]:
    """Return the hours and the table's row of each such cell."""
    found = []
    for row in sheet["rows"] if sheet["statistic"] != "sd" else ():
        base = baseline_of(sheet, row)
        if base is None:
            continue
        for column, cell in row["cells"].items():
            each = compared(sheet, row, base, column)
            if each is None or each.printed is None or verdict(each) != CANNOT_TELL:
                continue
            ratio = (each.difference["high"] - each.difference["low"]) / 2 / abs(each.printed)
            seeds = len(cell["values"])
            needed = max(seeds + 1, math.ceil(seeds * ratio**2))
            hours = (needed - seeds) * sum(_hours(sheet, r["cells"][column]) for r in (row, base))
            title = f"{each.row}, {sheet['columns'][column]['title']}"
            ours = difference(each.difference, 2)
            counts = [f"{ratio:.1f}", str(seeds), str(needed)]
            counts += [f"{hours:.1f}" if hours < math.inf else "-"]
            found.append((hours, [name, title, signed(each.printed, 2), ours, *counts]))
    return found


def _hours(sheet: StoredSheet, cell: Cell) -> float:
    """Return the mean time of the runs of a cell; that of all runs of the table if unknown."""
    made, runs = sheet.get("made", {}), cell.get("runs", [])
    seconds = [s for run in runs if run in made and (s := made[run]["seconds"]) is not None]
    source = sheet["source"]
    if seconds:
        return statistics.fmean(seconds) / 3600
    minutes = source["minutes"]  # None: measured beside other work, so no time is kept
    return math.inf if minutes is None else minutes / source["runs"] / 60
