# Tested by tests/reporting/paper/test_paper_table.py
"""Write the table of ``paper_table`` as text, Markdown, CSV, LaTeX and JSON."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from multitask.reporting.comparison.amounts import differ
from multitask.reporting.comparison.score_tables import difference_cell
from multitask.reporting.comparison.spread import sd_ratio
from multitask.reporting.page import tables_page
from multitask.reporting.paper.our_setting import setting_notes
from multitask.reporting.paper.paper_json import (
    PaperCell,
    PaperRow,
    PaperTable,
    baseline_of,
    compared_title,
    has_one_baseline,
)
from multitask.reporting.table_formats import Table, latex_float, number, signed, text_page
from multitask.utils.files import remove_scraps, write_text
from multitask.utils.outputs import check_replaced

FACTS = "paper.json"
CSV_PARTS = ("mean", "median", "sd", "printed")
DIFFERENCE_PARTS = ("value", "low", "high", "p", "p_holm")
TIMES = ("epoch_seconds", "dev_seconds")
TimeKey = Literal["epoch_seconds", "dev_seconds"]
AmountKey = Literal["updates", "trained_rows"]
CellKey = Literal["values", "printed", "difference"] | TimeKey | AmountKey
STATISTICS = {
    "mean": "mean ± standard deviation over seeds",
    "median": "median ± standard deviation over seeds",
    "sd": "standard deviation over seeds",
}


def paper_text(table: PaperTable) -> str:
    """Write the tables for the terminal."""
    return text_page(_tables(table), _notes(table))


def paper_markdown(table: PaperTable) -> str:
    """Write the tables with their notes below."""
    return tables_page(table["title"], _tables(table), _notes(table))


def paper_latex(table: PaperTable) -> str:
    """Write one float with the tables one above the other, none wider than the page."""
    caption = [table["title"] + ".", *_notes(table)]
    return latex_float(_tables(table, narrow=True), caption, fit=True)


def _turned(table: Table) -> Table:
    """Transpose a table; the first two cells of a row become the header of its column."""
    head = ("", *(f"{name}, {whose}" for name, whose, *_ in table.rows))
    columns = zip(table.header, *table.rows, strict=True)
    return Table(head, [*columns][2:])


def paper_csv(table: PaperTable) -> str:
    """Write a line per row and column, then per average: full precision, percent and seconds."""
    differences = [f"diff_{part}" for part in DIFFERENCE_PARTS]
    header = ["row", "column", "task", "metric", "seeds", *CSV_PARTS, *differences, *TIMES]
    rows: list[list[object]] = []
    for row in table["rows"]:
        for column, cell in zip(table["columns"], row["cells"], strict=True):
            if cell is None:
                continue
            difference: Mapping[str, object] = cell.get("difference") or {}
            line = [row["name"], column["title"], column["task"], column["metric"]]
            numbers = [len(cell["values"]), *(cell.get(part) for part in CSV_PARTS)]
            numbers += [difference.get(part) for part in DIFFERENCE_PARTS]
            rows.append([*line, *numbers, *(cell.get(part) for part in TIMES)])
        for average in table["averages"]:
            averages = {
                table["statistic"]: average["values"].get(row["name"]),
                "printed": average["printed"].get(row["name"]),
            }
            line = [row["name"], average["title"], "", "", ""]
            empty = [""] * len([*differences, *TIMES])
            rows.append([*line, *map(averages.get, CSV_PARTS), *empty])
    return Table(header, rows).csv()


def check_paper_table(directory: Path) -> None:
    """Raise UserError if a paper's table would replace files that none has written."""
    names = ("paper.md", "paper.csv", "paper.tex", "paper_scores.png", "paper_gain.png")
    check_replaced(directory / FACTS, ("statistic", "columns", "rows"), names)


def write_paper_table(directory: Path, table: PaperTable) -> list[Path]:
    """Write paper.json, .md, .csv and .tex; returns their paths."""
    check_paper_table(directory)
    directory.mkdir(parents=True, exist_ok=True)
    remove_scraps(directory)
    texts = {
        FACTS: json.dumps(table, indent=1, ensure_ascii=False) + "\n",
        "paper.md": paper_markdown(table),
        "paper.csv": paper_csv(table),
        "paper.tex": paper_latex(table),
    }
    for name, text in texts.items():
        write_text(directory / name, text)
    return [directory / name for name in texts]


def _tables(table: PaperTable, narrow: bool = False) -> Iterator[tuple[str, Table]]:
    """Yield the title and the content of each table that is not empty.

    ``narrow`` transposes the differences if they have more columns than rows.
    """
    baseline = table["baseline_title"] if has_one_baseline(table) else "each row's baseline"
    yield f"{table['title']}, in percent", _scores(table)
    if table["statistic"] != "sd" and (differences := _differences(table)):
        title = f"Difference to {baseline}, in points"
        wide = len(differences.header) - 2 > len(differences.rows)
        yield (
            f"{title}: ours [95 % interval] Holm's p",
            _turned(differences) if narrow and wide else differences,
        )
    if table["statistic"] == "sd" and (ratios := _sd_ratios(table)):
        title = f"Standard deviation, ratio to {baseline}"
        yield f"{title}: ours [95 % F interval over seeds, without correction]", ratios
    amounts: dict[AmountKey, str] = {"updates": "Updates", "trained_rows": "Trained rows"}
    for amount, title in amounts.items():
        if counts := _amounts(table, amount):
            yield f"{title}, the mean over seeds", counts
    titles: dict[TimeKey, str] = {
        "epoch_seconds": "Seconds of an epoch's training steps",
        "dev_seconds": "Seconds to score dev once",
    }
    for key, title in titles.items():
        if times := _times(table, key):
            yield f"{title} (ratio to {baseline})", times


def _scores(table: PaperTable) -> Table:
    """List the paper's values and ours for each row."""
    shown = _spread if table["statistic"] == "sd" else _percent
    rows = []
    for row in table["rows"]:
        printed = _cells(row, "printed")
        if any(value is not None for value in printed):
            averages = [average["printed"].get(row["name"]) for average in table["averages"]]
            rows.append([row["title"], "paper", *map(shown, [*printed, *averages])])
        if any(_cells(row, "values")):
            averages = [average["values"].get(row["name"]) for average in table["averages"]]
            ours = [_ours(cell, table["statistic"]) for cell in row["cells"]]
            rows.append([row["title"], "ours", *ours, *map(shown, averages)])
    titles = [column["title"] for column in table["columns"]]
    return Table(("", "", *titles, *(average["title"] for average in table["averages"])), rows)


def _ours(cell: PaperCell | None, statistic: str) -> str:
    if cell is None or not cell["values"]:
        return "-"
    if statistic == "sd":
        return _spread(cell["shown"])
    return f"{_percent(cell['shown'])} ± {_percent(cell['sd'])}"


def _percent(value: float | None) -> str:
    return number(value, ".2f")


def _spread(value: float | None) -> str:
    """Three significant digits: MaxPoolBERT's Table 3 has 6.34 and .0746."""
    return number(value, ".3g")


def _differences(table: PaperTable) -> Table | None:
    rows = []
    for row in table["rows"]:
        base = baseline_of(table, row)
        if base is None:
            continue
        pairs = zip(_cells(row, "printed"), _cells(base, "printed"), strict=True)
        printed = [None if None in pair else pair[0] - pair[1] for pair in pairs]
        ours = [difference_cell(each, digits=2) for each in _cells(row, "difference")]
        for whose, cells in (("paper", [signed(value, 2) for value in printed]), ("ours", ours)):
            if set(cells) != {"-"}:
                rows.append([compared_title(table, row), whose, *cells])
    titles = [column["title"] for column in table["columns"]]
    return Table(("", "", *titles), rows) if rows else None


def _sd_ratios(table: PaperTable) -> Table | None:
    """List the ratio of each row's standard deviation to that of the baseline, paper and ours."""
    rows = []
    for row in table["rows"]:
        base = baseline_of(table, row)
        if base is None:
            continue
        paper, ours = [], []
        for cell, other in zip(row["cells"], base["cells"], strict=True):
            above, below = (each and each["printed"] for each in (cell, other))
            paper.append(number(above / below, ".2f") if above and below else "-")
            ratio = cell and other and sd_ratio(cell["values"], other["values"])
            ours.append(f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio else "-")
        for whose, shown in (("paper", paper), ("ours", ours)):
            if set(shown) != {"-"}:
                rows.append([compared_title(table, row), whose, *shown])
    titles = [column["title"] for column in table["columns"]]
    return Table(("", "", *titles), rows) if rows else None


def _cells(row: PaperRow, key: CellKey) -> list[Any]:
    """Return one value of each cell of a row; None where it is missing."""
    return [None if cell is None else cell.get(key) for cell in row["cells"]]


def _places(table: PaperTable) -> dict[str, int]:
    """Return the place of each task's first column, by its name and its ``cells``."""
    places: dict[str, int] = {}
    for place, column in enumerate(table["columns"]):
        cells = column.get("cells")
        places.setdefault(f"{column['task']} {cells}" if cells else column["task"], place)
    return places


def _amounts(table: PaperTable, key: AmountKey) -> Table | None:
    """List how much each row was trained, if some rows of a column differ by over a percent."""
    places = _places(table)
    lines = [[_cells(row, key)[at] for at in places.values()] for row in table["rows"]]
    columns = zip(*lines, strict=True)
    if not any(differ([count for count in column if count]) for column in columns):
        return None
    rows = [
        [row["title"], *("-" if count is None else f"{count:,}" for count in line)]
        for row, line in zip(table["rows"], lines, strict=True)
        if any(line)
    ]
    return Table(("", *places), rows)


def _times(table: PaperTable, key: TimeKey) -> Table | None:
    """List the median seconds over seeds, in a column per task (and its ``cells``)."""
    places = _places(table)
    rows = []
    for row in table["rows"]:
        base, line = baseline_of(table, row), []
        for place in places.values():
            seconds, other = (_cells(each, key)[place] if each else None for each in (row, base))
            ratio = f" (x{seconds / other:.2f})" if seconds and other else ""
            line.append("-" if seconds is None else f"{seconds:.2f}{ratio}")
        if set(line) != {"-"}:
            rows.append([compared_title(table, row), *line])
    return Table(("", *places), rows) if rows else None


def _notes(table: PaperTable) -> list[str]:
    """Say what the differences show, what the numbers are and how they were computed."""
    lines = [
        *table.get("verdicts", []),
        f"Ours: {STATISTICS[table['statistic']]}, dev scores.",
        *setting_notes(table),
    ]
    if table["source"]:
        lines.append(f"Paper: {table['source']}.")
    deviations = table["statistic"] == "sd"
    if not deviations and any(any(_cells(row, "difference")) for row in table["rows"]):
        each = "" if has_one_baseline(table) else " with one baseline"
        lines.append(
            "Differences are of means: paired bootstrap over dev rows and seeds, "
            f"{table['resamples']:,} resamples, 95 % percentile interval; p is two-sided, after "
            f"Holm's correction over the column's comparisons{each}. Rows only: a side has one "
            "seed, so there is no p."
        )
    for average in table["averages"]:
        columns = ", ".join(average["columns"]) or "no column that every row has"
        lines.append(f"{average['title']}: {columns}; the paper's over the same ones.")
    if any(any(_cells(row, "epoch_seconds")) for row in table["rows"]):
        lines.append("Times: median over seeds, on whatever machine and load the runs had.")
    return [*lines, *table["notes"]]
