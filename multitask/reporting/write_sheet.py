"""Write the files of a sheet: a comparison, or a paper's table; and build a comparison's page."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from multitask.reporting import sheet as sheets
from multitask.reporting import sheet_tables
from multitask.reporting.figures.dots import (
    MAX_CURVES,
    curve_groups,
    draw_all,
    draw_paper_table,
    heatmap_files,
)
from multitask.reporting.grid_axes import axis_labels, long_axes
from multitask.reporting.html_page import write_html
from multitask.reporting.page import (
    Block,
    Image,
    Lines,
    Page,
    Section,
    Text,
    Tile,
    tables_page,
)
from multitask.reporting.read_runs import shown
from multitask.reporting.sheet import Axis, Cell, Row, Sheet
from multitask.reporting.table_formats import Table, latex_float
from multitask.reporting.verdicts import significant
from multitask.store.files import remove_scraps, write_text
from multitask.store.outputs import check_output

LEGEND = (
    "Dot: the mean over seeds; bar: its 95 % interval; stroke: the baseline. The best of many is "
    "partly luck: read the differences."
)
MARGINALS = (
    "Mean of all cells that have a value, ± standard deviation of that mean over seeds. A place on "
    "the other axes counts only if every value of the axis has a score there. The best is marked."
)
Column = Mapping[str, Cell]  # the cells of a column that have a score, by the name of the row


def write_sheet(directory: Path, sheet: Sheet) -> list[Path]:
    """Write JSON, Markdown, CSV, LaTeX and figures; of a comparison also report.html.

    Returns their paths. Raises UserError for a damaged log of a run, and for a directory of others.
    """
    check_output(directory)
    directory.mkdir(parents=True, exist_ok=True)
    remove_scraps(directory)
    facts, stem = ("paper.json", "paper") if sheet["paper"] else ("comparison.json", "table")
    texts = {
        facts: json.dumps(sheet, indent=1, ensure_ascii=False) + "\n",  # says whose the files are
        f"{stem}.md": sheet_tables.markdown_text(sheet),
        f"{stem}.csv": sheet_tables.csv_text(sheet),
        f"{stem}.tex": sheet_tables.latex_text(sheet),
    }
    if tables := sheet_tables.metric_tables(sheet):
        shown = [
            f"Every metric on dev: {sheet_tables.SHOWN['mean']}, and the 95 % interval over rows "
            "and seeds. Holm's correction is over the groups of one metric, not over the metrics."
        ]
        texts["metrics.md"] = tables_page("Every metric", tables, shown)
        texts["metrics.tex"] = latex_float(tables, shown)
    for name, text in texts.items():
        write_text(directory / name, text)
    files = [directory / name for name in texts]
    if sheet["paper"]:
        return [*files, *draw_paper_table(directory, sheet)]
    files += [*draw_all(directory, sheet), directory / "report.html"]
    write_html(comparison_page(directory, sheet), files[-1])
    return files


def comparison_page(directory: Path, sheet: Sheet) -> Page:
    """Build the page from a comparison and from the figures that were saved next to it."""
    rows, notes = sheet["rows"], sheet["notes"]
    alt = "Scores of each group by task: one dot a seed, the mean and its interval"
    difference = sheet_tables.difference_title(sheet)
    more: dict[str, Block] = {
        sheet_tables.scores_title(sheet): Image(directory / "figure.png", alt),
        difference: Lines(sheet.get("verdicts", [])),
    }
    labels = {sheet_tables.HOLDOUT_TITLE: "Holdout", difference: "Differences"}
    sections: list[Section] = []
    along: list[Section] = []
    transfer: list[Section] = []
    for title, table in sheet_tables.titled_tables(sheet):
        last = transfer if title in sheet_tables.TRANSFER_TITLES else sections
        part = along if title.startswith(sheet_tables.AXES_TITLE) else last
        blocks = [table, more[title]] if title in more else [table]
        part.append(Section(title, blocks, label=labels.get(title, "")))
    if notes:
        sections.append(Section("Notes", [Lines(notes)], alert=True))
    if settings := settings_table(rows):
        title = "Settings in which the groups differ"
        sections.append(Section(title, [settings], label="Settings"))
    sections += [*_grid_sections(directory, sheet, along), *_curves(directory, sheet)]
    if transfer:
        sections.append(Section("Transfer between tasks", parts=transfer, label="Transfer"))
    directories = [
        [row["name"], str(seed), run]
        for row in rows
        for seed, run in zip(row["seeds"], row["runs"], strict=True)
    ]
    runs = Table(("group", "seed", "directory"), directories)
    sections += [
        Section("How to read this", [Lines(sheet_tables.explanations(sheet))]),
        Section("Runs", parts=[Section("Their directories", [runs], folded=True)]),
    ]
    text = "The best mean of each column."
    if _column(sheet, sheets.MEAN, held_out=True):
        text = "Dev scores of the group that is best on the held-out rows."
    return Page(
        folder=directory,
        title=f"Comparison: {directory.resolve().name}",
        summary=f'Runs of {", ".join(sheets.tasks(sheet))}; baseline: "{sheet["baseline"]}".',
        sections=sections,
        tiles=_tiles(sheet),
        legend=f"{text} {LEGEND}",
    )


def _column(sheet: Sheet, name: str, *, held_out: bool = False) -> Column:
    """Return a column's scores; those on the held-out rows only if several rows have them."""
    known: dict[str, Cell] = {}
    for row in sheet["rows"]:
        cell = ((row.get("holdout") or {}) if held_out else row["cells"]).get(name)
        if cell and cell["mean"] is not None:
            known[row["name"]] = cell
    return known if len(known) > 1 or not held_out else {}


def _tiles(sheet: Sheet) -> list[Tile]:
    """Build a tile for the mean and one per task: the best row next to the baseline.

    The held-out rows say which row is best, if there are any.
    """
    several = len(sheets.tasks(sheet)) > 1
    tiles = []
    for name in ([sheets.MEAN] if several else []) + sheets.tasks(sheet):
        cells, baseline = _column(sheet, name), sheet["baseline"]
        if not cells:
            continue
        held_out = _column(sheet, name, held_out=True)
        candidates = {row: cell for row, cell in held_out.items() if row in cells} or cells
        best = max(candidates, key=lambda row: candidates[row]["mean"])
        cell = cells[best]
        who = f'best of {len(candidates)}: "{best}"' if len(candidates) > 1 else f'"{best}"'
        flags, references = [], {}
        if best == baseline:
            who += ", the baseline"
        elif baseline in cells:
            references["baseline"] = cells[baseline]["mean"]
            difference = cell["difference"]
            if difference and sheets.rows_only(difference):
                flags.append(sheet_tables.ONE_SEED)
            elif not (significant(difference) and difference and difference["value"] > 0):
                flags.append("not clearly better than the baseline")
        title = "mean of the tasks" if name == sheets.MEAN else sheet["columns"][name]["title"]
        tiles.append(Tile(title, who, cell["mean"], cell["low"], cell["high"], references, flags))
    return tiles


def settings_table(rows: Sequence[Row]) -> Table | None:
    """Build the table of the settings in which groups differ; None if there is no such setting.

    Groups are the rows, unless there are more keys than groups. ``-`` is a key that a group does
    not have.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row["settings"]))
    if not keys:
        return None
    lines = [
        [row["name"], *(shown(row["settings"][k]) if k in row["settings"] else "-" for k in keys)]
        for row in rows
    ]
    if len(rows) >= len(keys):
        return Table(("group", *keys), lines)
    names, *columns = zip(*lines, strict=True)
    turned = [[key, *column] for key, column in zip(keys, columns, strict=True)]
    return Table(("key", *names), turned)


def _grid_sections(directory: Path, sheet: Sheet, along: Sequence[Section]) -> list[Section]:
    """Show heat maps of pairs of axes, and what each axis changes, for two axes or more.

    ``along`` has the differences.
    """
    long = long_axes(sheet.get("axes", []))
    if len(long) < 2:
        return []
    caption = "Each field is a cell of the grid: its mean over seeds; a dash: no score."
    if len(long) > 2:
        caption = (
            "A map for each pair of the grid's axes: means over seeds and over the values of all "
            "other axes at which no cell of the map lacks its score."
        )
    maps = [
        Section(title, [Image(file, f"{title} over pairs of the grid's axes, as a heat map")])
        for title, file in heatmap_files(directory, sheet).items()
    ]
    means = [
        Section(axis["key"], [marginal_table(sheet, axis)])
        for axis in (sheet["axes"][i] for i in long)
    ]
    return [
        Section("Heat maps", [Text(f"{caption} The figures differ in their scale.")], maps),
        Section("Along the axes", [Text(MARGINALS)], [*means, *along], label="Axes"),
    ]


def marginal_table(sheet: Sheet, axis: Axis) -> Table:
    """Build the table of an axis: a row per value; the best score of each column is marked."""
    labels = axis_labels(axis)
    found = [each for each in sheet["marginals"] if each["axis"] == axis["key"]]
    means = [[*each["cells"].values()] for each in found]
    rows = []
    for each, scores in zip(found, means, strict=True):
        counts = sorted({entry["cells"] for entry in scores if entry})
        cells = " to ".join(map(str, dict.fromkeys((*counts[:1], *counts[-1:]))))
        rows.append([labels[each["label"]], cells, *map(sheet_tables.score_cell, scores)])
    header = ("value", "cells", *sheets.titles(sheet))
    return Table(header, rows, sheet_tables.best_cells(means, 2))


def _curves(directory: Path, sheet: Sheet) -> list[Section]:
    drawn = curve_groups(sheet)
    if not drawn:
        return []
    text = "Scores on the split that selects, mean over seeds."
    total = len(sheet["rows"])
    if len(drawn) < total:
        which = "those with a log" if len(drawn) < MAX_CURVES else "the best"
        if which == "the best" and sheet["baseline"] in drawn:
            which = "the baseline and the best"
        text += f" {len(drawn)} of {total} groups: {which}."
    alt = f"Each task's metric at every evaluation, for {', '.join(drawn)}"
    gap = "Each task's loss on the split that selects minus its training loss, at every evaluation"
    figures = [Image(directory / sheets.CURVES, alt), Image(directory / sheets.GAPS, gap)]
    return [Section("Learning curves", [Text(text), *figures])]
