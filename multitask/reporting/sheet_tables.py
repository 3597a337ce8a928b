# Long: every table of a sheet, so that a change of one is seen next to the others.
"""The tables of a sheet as text, Markdown, CSV and LaTeX, and how to read them."""

from collections.abc import Sequence
from typing import Any

from multitask.reporting import sheet as sheets
from multitask.reporting import table_formats
from multitask.reporting.grid_axes import FEWEST_POINTS
from multitask.reporting.notes import setting_notes
from multitask.reporting.page import tables_page
from multitask.reporting.sheet import Cell, Difference, Sheet
from multitask.reporting.statistics import sd_ratio
from multitask.reporting.table_formats import Table, number, p_value, signed
from multitask.reporting.verdicts import axis_values, differ, significant

HOLDOUT_TITLE = "Scores on the held-out rows of train: choose by these, report dev"
AXES_TITLE = "Difference of a value to the first value of its axis"
GAIN_TITLE = "Relative gain over single-task training in %, and its mean Δm"
MATRIX_TITLE = "Adding the task of a row to the training of a column's changes its score by"
TRANSFER_TITLES = (GAIN_TITLE, MATRIX_TITLE)
TRAINING_TITLE = "Training"
ONE_SEED = "one seed: says nothing about another seed"
SHOWN = {
    "mean": "mean ± standard deviation over seeds",
    "median": "median ± standard deviation over seeds",
    "sd": "standard deviation over seeds",
}
# how much the runs were trained: shown where it differs
AMOUNTS = {
    "trained_parameters": "trained parameters",
    "updates": "updates",
    "trained_rows": "trained rows",
}
SECONDS = {
    "epoch_seconds": "seconds of an epoch's training steps",
    "dev_seconds": "seconds to score dev once",
}
SCORES = ("mean", "median", "sd", "low", "high", "printed")
DIFFERENCES = ("value", "low", "high", "p", "p_holm")


def terminal_page(sheet: Sheet) -> str:
    """Write the tables for the terminal; the best score of each column is marked with ``*``."""
    return table_formats.text_page(titled_tables(sheet), remarks(sheet))


def markdown_text(sheet: Sheet) -> str:
    """Write the tables, and below them how they were made and their limits."""
    return tables_page(sheet["title"], titled_tables(sheet), remarks(sheet))


def latex_text(sheet: Sheet) -> str:
    """Write one float with the tables one above the other, none wider than the page."""
    caption = [f"{sheet['title']}.", *remarks(sheet)]
    return table_formats.latex_float(titled_tables(sheet), caption)


def metric_tables(sheet: Sheet) -> list[tuple[str, Table]]:
    """Build two tables per task, with a column per metric on dev.

    The first has the scores of each group with their intervals, and the trivial guess; the second
    the differences to the baseline, if there are any, with the significant ones marked.
    """
    tables = []
    for task, by_metric in sheet.get("metrics", {}).items():
        rows = [
            [name, *(score_cell(cell, bounds=True) for cell in line)]
            for name in [*(row["name"] for row in sheet["rows"]), sheets.TRIVIAL]
            if any(line := [cells.get(name) for cells in by_metric.values()])
        ]
        tables.append((task, Table(("group", *by_metric), rows)))
        columns: Any = {metric: {"title": metric} for metric in by_metric}
        of_task: Any = []
        for row in sheet["rows"]:
            found = {
                m: cells[row["name"]] for m, cells in by_metric.items() if row["name"] in cells
            }
            of_task.append({**row, "cells": found})
        differences = difference_table({**sheet, "columns": columns, "rows": of_task})
        if differences:
            tables.append((f"{task}, {difference_title(sheet).replace('D', 'd', 1)}", differences))
    return tables


def csv_text(sheet: Sheet) -> str:
    """Write a line per row and column, in full precision; a missing number is an empty cell."""
    differences = [f"diff_{part}" for part in DIFFERENCES]
    numbers = [*SCORES, *differences, *AMOUNTS, *SECONDS]
    lines = []
    for row in sheet["rows"]:
        for name, column in sheet["columns"].items():
            cell: Any = row["cells"].get(name)
            if cell is not None:
                head = [row["name"], column["title"], column.get("task"), column.get("metric")]
                difference, training = cell.get("difference") or {}, {**sheets.facts(row, name)}
                values = [*map(cell.get, SCORES), *map(difference.get, DIFFERENCES)]
                values += map(training.get, (*AMOUNTS, *SECONDS))
                lines.append([*head, len(cell["values"]), *values])
    return Table(["row", "column", "task", "metric", "seeds", *numbers], lines).csv()


def remarks(sheet: Sheet) -> list[str]:
    """Return what is written below the tables: what they show, how to read them, caveats."""
    return [*sheet.get("verdicts", []), *explanations(sheet), *sheet["notes"]]


def titled_tables(sheet: Sheet) -> list[tuple[str, Table]]:
    """Return the title and the content of each table that is not empty."""
    tables: dict[str, Table | None] = {
        scores_title(sheet): score_table(sheet),
        HOLDOUT_TITLE: holdout_table(sheet),
        difference_title(sheet): difference_table(sheet),
        AXES_TITLE: axes_table(sheet),
        f"{AXES_TITLE}, on the held-out rows": axes_table(sheet, held_out=True),
        **training_tables(sheet),
        GAIN_TITLE: gain_table(sheet),
        MATRIX_TITLE: matrix_table(sheet),
    }
    return [(title, table) for title, table in tables.items() if table is not None]


def scores_title(sheet: Sheet) -> str:
    return f"{sheet['title']}, in percent" if sheet["paper"] else "Dev scores"


def score_table(sheet: Sheet) -> Table:
    """Build the table of scores; in a paper's table the printed ones are above ours.

    The best mean of a column is marked, unless a row has one seed or it is a paper's table.
    """
    lines, ours, statistic = [], [], sheet["statistic"]
    # of deviations three significant digits: MaxPoolBERT's Table 3 has 6.34 and .0746
    pattern = ".3g" if statistic == "sd" else ".2f" if sheet["paper"] else ".3f"
    for row in sheet["rows"]:
        cells = [*map(row["cells"].get, sheet["columns"])]
        printed = [number(cell.get("printed") if cell else None, pattern) for cell in cells]
        if set(printed) != {"-"}:
            lines.append([row["title"], "paper", *printed])
        if not sheet["paper"] or any(cell and cell["values"] for cell in cells):
            whose = "ours" if sheet["paper"] else str(len(row["seeds"]))
            shown = (score_cell(cell, pattern, statistic) for cell in cells)
            lines.append([row["title"], whose, *shown])
            ours.append(cells)
    head = ("", "") if sheet["paper"] else ("group", "seeds")
    marked = frozenset[tuple[int, int]]() if sheet["paper"] else best_cells(ours, 2)
    return Table((*head, *sheets.titles(sheet)), lines, marked)


def score_cell(
    cell: Any, pattern: str = ".3f", statistic: str = "mean", *, bounds: bool = False
) -> str:
    """Mean and standard deviation, such as ``0.712 ± 0.004``; ``-`` without a score.

    With ``bounds``, the interval too: ``0.712 ± 0.004 [0.690, 0.731]``.
    """
    found = cell or {}
    value = found.get(statistic)
    if value is None or statistic == "sd" or "sd" not in found:  # an average has no deviation
        return number(value, pattern)
    low, high = (found.get(end) for end in ("low", "high"))
    interval = f" [{number(low, pattern)}, {number(high, pattern)}]"
    shown = f"{number(value, pattern)} ± {number(found['sd'], pattern)}"
    return shown + (interval if bounds and low is not None else "")


def best_cells(rows: Sequence[Sequence[Any]], first: int) -> frozenset[tuple[int, int]]:
    """Return the cells to mark: the best mean of each column, numbered from ``first``.

    A column with a score of one seed has no mark: it says nothing about another seed.
    """
    marked = set()
    for place, column in enumerate(zip(*rows, strict=True), first):
        means = [cell["mean"] if cell else None for cell in column]
        best = sheets.best_of([mean for mean in means if mean is not None])
        if best is not None and sheets.several_seeds(column):
            marked |= {(row, place) for row, mean in enumerate(means) if mean == best}
    return frozenset(marked)


def holdout_table(sheet: Sheet) -> Table | None:
    """Build the table of scores on the holdout, the best marked; None for fewer than two rows."""
    scores = {
        row["title"]: [*map(holdout.get, sheet["columns"])]
        for row in sheet["rows"]
        if (holdout := row.get("holdout"))
    }
    rows = [[title, *map(score_cell, cells)] for title, cells in scores.items()]
    header = ("group", *sheets.titles(sheet))
    return Table(header, rows, best_cells([*scores.values()], 1)) if len(rows) > 1 else None


def difference_title(sheet: Sheet) -> str:
    if sheet["statistic"] == "sd":
        title = f"Standard deviation, ratio to {_baseline(sheet)}"
        return f"{title}: ours [95 % F interval over seeds, without correction]"
    found = _every_difference(sheet)
    p = "" if found and all(map(sheets.rows_only, found)) else ", Holm's p"
    unit = ", in points" if sheet["paper"] else ""
    return f"Difference to {_baseline(sheet)}{unit}, its 95 % interval{p}"


def _baseline(sheet: Sheet) -> str:
    if not sheets.has_one_baseline(sheet):
        return "each row's baseline"
    return next(row["title"] for row in sheet["rows"] if row["name"] == sheet["baseline"])


def _every_difference(sheet: Sheet) -> list[Difference]:
    cells = (cell for row in sheet["rows"] for cell in row["cells"].values())
    return [difference for cell in cells if (difference := cell.get("difference"))]


def difference_table(sheet: Sheet) -> Table | None:
    """Build the table of differences to the baseline, the paper's above ours; None without any.

    Significant ones are marked. A table of standard deviations has their ratios instead, as the
    differences are of means. A paper's averages have no column.
    """
    compared = _ratio if sheet["statistic"] == "sd" else _difference
    digits = 2 if sheet["paper"] else 3
    columns = [name for name, column in sheet["columns"].items() if "over" not in column]
    head = ("", "") if sheet["paper"] else ("group",)
    rows: list[list[str]] = []
    marked: set[tuple[int, int]] = set()
    for row in sheet["rows"]:
        base = sheets.baseline_of(sheet, row)
        if base is None:
            continue
        cells = ((row["cells"].get(name), base["cells"].get(name)) for name in columns)
        pairs = [compared(cell, other, digits) for cell, other in cells]
        printed, ours, marks = zip(*pairs, strict=True)
        title = sheets.compared_title(sheet, row)
        if set(printed) != {"-"}:
            rows.append([title, "paper", *printed])
        if set(ours) != {"-"}:
            marked |= {(len(rows), len(head) + place) for place, mark in enumerate(marks) if mark}
            rows.append([title, *(["ours"] if sheet["paper"] else []), *ours])
    header = (*head, *(sheet["columns"][name]["title"] for name in columns))
    return Table(header, rows, frozenset(marked)) if rows else None


def _difference(cell: Cell | None, base: Cell | None, digits: int) -> tuple[str, str, bool]:
    """Return the printed difference of a cell to its baseline's, ours, and if it is significant."""
    difference = cell.get("difference") if cell else None
    shown = difference_cell(difference, digits) if difference else "-"
    return signed(sheets.printed_difference(cell, base), 2), shown, significant(difference)


def _ratio(cell: Cell | None, base: Cell | None, _: int) -> tuple[str, str, bool]:
    """Return the printed deviation divided by that of the baseline, ours, and no mark."""
    above, below = (each.get("printed") if each else None for each in (cell, base))
    paper = number(above / below, ".2f") if above and below else "-"
    ratio = cell and base and sd_ratio(cell["values"], base["values"])
    return paper, "{:.2f} [{:.2f}, {:.2f}]".format(*ratio) if ratio else "-", False


def axes_table(sheet: Sheet, *, held_out: bool = False) -> Table | None:
    """Build the table of what each value of an axis changes; None without any difference.

    Significant differences are marked.
    """
    rows: list[list[Any]] = []
    marked: set[tuple[int, int]] = set()
    for title, found, points in axis_values(sheet, held_out=held_out):
        cells = [found.get(name) for name in sheet["columns"]]
        marked |= {(len(rows), 2 + i) for i, each in enumerate(cells) if significant(each)}
        shown = (difference_cell(each, 4) if each else "-" for each in cells)
        rows.append([title, points, *shown])
    header = ("value", "points", *sheets.titles(sheet))
    return Table(header, rows, frozenset(marked)) if rows else None


def difference_cell(difference: Difference, digits: int = 3) -> str:
    """Format a difference, such as ``+0.012 [-0.003, +0.027] p 0.123``.

    Without a p, as one side has one seed, it ends with ``rows only``.
    """
    p = "rows only" if sheets.rows_only(difference) else p_value(difference["p_holm"])
    return f"{table_formats.difference(difference, digits)} {p}"


def training_tables(sheet: Sheet) -> dict[str, Table]:
    """Return tables of how much each row was trained, where rows differ in it, and how long.

    The rows of a comparison have one training each, so there is one table with a column per fact.
    In a paper's table each task has its own: there is a table per fact, with a column per task.
    """
    rows, places, paper = sheet["rows"], _places(sheet), sheet["paper"]
    bases = [sheets.baseline_of(sheet, row) for row in rows]
    columns: dict[str, list[list[str]]] = {}  # by fact: a line of cells per row
    for key, title in (AMOUNTS | SECONDS).items():
        ours, theirs = (
            [[sheets.facts(row, name).get(key) if row else None for name in places] for row in each]
            for each in (rows, bases)
        )
        if key in SECONDS and _timed(sheet, key):
            columns[f"{title} (ratio to {_baseline(sheet)})"] = [
                list(map(_seconds, *pair)) for pair in zip(ours, theirs, strict=True)
            ]
        elif key in AMOUNTS and any(
            differ([*filter(None, counts)]) for counts in zip(*ours, strict=True)
        ):
            columns[title] = [[number(count, ",") for count in of_row] for of_row in ours]
    titles = [sheets.compared_title(sheet, row) for row in rows]
    if not paper:
        cells = [[title, *(of[i][0] for of in columns.values())] for i, title in enumerate(titles)]
        return {TRAINING_TITLE: Table(("group", *columns), cells)} if columns else {}
    tables = {}
    for title, of_fact in columns.items():
        cells = [[row, *of] for row, of in zip(titles, of_fact, strict=True) if set(of) != {"-"}]
        tables[title[0].upper() + title[1:]] = Table(("", *places.values()), cells)
    return tables


def _places(sheet: Sheet) -> dict[str, str]:
    """Return the names of the columns whose trainings are listed, with their heads.

    These are the first column of each task and its ``cells``, or any column of a comparison.
    """
    if not sheet["paper"]:
        return {next(iter(sheet["columns"])): ""}
    heads: dict[str, str] = {}
    for name, column in sheet["columns"].items():
        head = " ".join(filter(None, (column.get("task"), column.get("cells"))))
        if "over" not in column and head not in heads.values():
            heads[name] = head
    return heads


def _timed(sheet: Sheet, key: str) -> bool:
    """Return True if there are times to show: in a comparison, of several rows."""
    timed = [
        any(sheets.facts(row, name).get(key) for name in _places(sheet)) for row in sheet["rows"]
    ]
    return sum(timed) > (0 if sheet["paper"] else 1)


def _seconds(seconds: float | None, baseline: float | None) -> str:
    ratio = f" (x{seconds / baseline:.2f})" if seconds and baseline else ""
    return "-" if seconds is None else f"{seconds:.2f}{ratio}"


def gain_table(sheet: Sheet) -> Table | None:
    """Build the table of relative gains in percent; None without single-task rows."""
    rows = []
    for name, gain in sheet.get("transfer", {}).get("gains", {}).items():
        values = [*map(gain["tasks"].get, sheets.tasks(sheet)), gain["delta_m"]]
        rows.append([name, *(signed(value, digits=1) for value in values)])
    return Table(("group", *sheets.tasks(sheet), "Δm"), rows) if rows else None


def matrix_table(sheet: Sheet) -> Table | None:
    """Build the table of how adding one task changes another's score; None without pairs."""
    matrix = sheet.get("transfer", {}).get("matrix", {})
    shown = [task for task in sheets.tasks(sheet) if task in matrix]
    rows = [
        [added, *(signed(matrix[added].get(task, {}).get("change")) for task in shown)]
        for added in shown
    ]
    return Table(("added task", *shown), rows) if rows else None


def explanations(sheet: Sheet) -> list[str]:
    """Explain what the numbers are, how they were computed, and their limits."""
    rows, paper, singles = sheet["rows"], sheet["paper"], sheet.get("transfer", {}).get("singles")
    lines = [f"Dev scores: {SHOWN[sheet['statistic']]}."]
    if score_table(sheet).marked:
        lines[0] += (
            " The best mean of a column is marked; that alone does not make it better than the "
            "next."
        )
    if paper is not None:
        lines += setting_notes(sheet)
        lines += [f"Paper: {paper['source']}."] if paper.get("source") else []
    else:
        single = [row["name"] for row in rows if len(row["seeds"]) == 1]
        who = "every group" if len(single) == len(rows) else ", ".join(single)
        if single:
            lines.append(f"{ONE_SEED.capitalize()}; its deviation is unknown (-): {who}.")
    found = [] if sheet["statistic"] == "sd" else _every_difference(sheet)
    if found:
        lines.append(
            f"Differences to {_baseline(sheet)} are of means: paired bootstrap over dev rows and "
            f"seeds, {sheet['resamples']:,} resamples, 95 % percentile interval. Significant ones "
            "are marked."
        )
    if any(map(sheets.rows_only, found)):
        lines.append("Rows only: an interval of the dev rows alone, as a side has one seed; no p.")
    if not all(map(sheets.rows_only, found)):
        each = "" if sheets.has_one_baseline(sheet) else " with one baseline"
        lines += [
            f"p is two-sided, after Holm's correction over the column's comparisons{each}; groups "
            "with the same predictions are one.",
            "Few seeds are a coarse measure: the true standard deviation may be half or six times "
            "that of three. Where seeds differ several times more than the rows' noise, intervals "
            "are too narrow and p too small.",
        ]
    if any(axis_values(sheet)):
        lines.append(
            "The difference of a value of an axis is the mean over the points of the other axes "
            "that have every value: paired bootstrap over rows, seeds and points. There is a p "
            f"from {FEWEST_POINTS} points on, after Holm's correction over a column's values."
        )
    lines += [
        f"{column['title']}: {', '.join(column['over']) or 'no column that every row has'}; the "
        "paper's over the same ones."
        for column in sheet["columns"].values()
        if "over" in column
    ]
    if _timed(sheet, "epoch_seconds"):
        lines.append(
            "Training times are medians over seeds, without evaluation and start-up; the load of "
            "the machine was not controlled."
        )
    if singles:
        alone = ", ".join(f"{name} ({task})" for task, name in singles.items())
        lines.append(
            "Δm: mean over tasks of (M - B) / B in percent, B being the task trained alone "
            f"(Maninis et al. 2019); alone: {alone}. No interval is given for it."
        )
    return lines
