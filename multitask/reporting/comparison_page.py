"""Build report.html, the page of a comparison."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from multitask.reporting import sheet_tables
from multitask.reporting.compare import axis_labels, long_axes
from multitask.reporting.figures.dots import MAX_CURVES, curve_groups, heatmap_files
from multitask.reporting.page import Image, Lines, Page, Section, Text, Tile
from multitask.reporting.read_runs import shown
from multitask.reporting.sheet import (
    CURVES,
    GAPS,
    Axis,
    ComparedGroup,
    Comparison,
    Difference,
    Scores,
    columns,
    differences,
    entries,
    rows_only,
    several_seeds,
)
from multitask.reporting.table_formats import Table
from multitask.reporting.verdicts import SIGNIFICANT, significant

LEGEND = (
    "Dot: the mean over seeds; bar: its 95 % interval; stroke: the baseline. The best of many is "
    "partly luck: read the differences."
)
LEGENDS = {
    "dev": f"The best mean of each column. {LEGEND}",
    "holdout": f"Dev scores of the group that is best on the held-out rows. {LEGEND}",
}
MARGINALS = (
    "Mean of all cells that have a value, ± standard deviation of that mean over seeds. A place on "
    "the other axes counts only if every value of the axis has a score there. The best is marked."
)


def comparison_page(directory: Path, comparison: Comparison) -> Page:
    """Build the page from a comparison and from the figures that ``draw_all`` saved."""
    groups, notes = comparison["groups"], comparison["notes"]
    alt = "Scores of each group by task: one dot a seed, the mean and its interval"
    figure = Image(directory / "figure.png", alt)
    sections = [
        Section(sheet_tables.SCORES_TITLE, [sheet_tables.score_table(comparison), figure]),
        *_section(sheet_tables.HOLDOUT_TITLE, sheet_tables.holdout_table(comparison), "Holdout"),
        *_differences(comparison),
        *_section(sheet_tables.TIME_TITLE, sheet_tables.time_table(comparison), "Training time"),
        *([Section("Notes", [Lines(notes)], alert=True)] if notes else []),
        *_section("Settings in which the groups differ", settings_table(groups), "Settings"),
        *_grid_sections(directory, comparison),
        *_curves(directory, comparison),
        *_transfer(comparison),
        Section("How to read this", [Lines(sheet_tables.explanations(comparison))]),
        Section("Runs", parts=[Section("Their directories", [_runs(groups)], folded=True)]),
    ]
    return Page(
        folder=directory,
        title=f"Comparison: {directory.resolve().name}",
        summary=_summary(comparison),
        sections=sections,
        tiles=_tiles(comparison),
        legend=LEGENDS["holdout" if _held_out(comparison, -1) else "dev"],
    )


def _section(title: str, table: Table | None, label: str = "") -> list[Section]:
    return [Section(title, [table], label=label)] if table else []


def _column(comparison: Comparison, at: int) -> dict[str, Scores]:
    """Return the entries of a column that have a score, by group."""
    found = {g["name"]: entries(comparison, g)[at] for g in comparison["groups"]}
    return {name: entry for name, entry in found.items() if entry and entry["mean"] is not None}


def _held_out(comparison: Comparison, at: int) -> dict[str, Scores]:
    """Return the scores of a column on the held-out rows, by group; none for a single group."""
    groups = {g["name"]: g.get("holdout") for g in comparison["groups"]}
    found = {name: entries(comparison, holdout)[at] for name, holdout in groups.items() if holdout}
    known = {name: each for name, each in found.items() if each and each["mean"] is not None}
    return known if len(known) > 1 else {}


def _best(entries: Mapping[str, Scores]) -> str:
    return max(entries, key=lambda name: entries[name]["mean"])


def _summary(comparison: Comparison) -> str:
    groups, baseline = comparison["groups"], comparison["baseline"]
    runs = sum(len(group["runs"]) for group in groups)
    counted = [_counted(len(groups), "group"), _counted(runs, "run")]
    text = f'{", ".join(counted)} on {", ".join(comparison["tasks"])}; baseline: "{baseline}".'
    overall, held_out = _column(comparison, -1), _held_out(comparison, -1)
    scores = held_out or overall
    if len(scores) < 2:
        return text
    best = _best(scores)
    where = "Best on the held-out rows" if held_out else "Best mean over the tasks"
    text += f' {where}: "{best}" with {sheet_tables.score_cell(scores[best])}'
    if best == baseline:
        text += ", the baseline"
    elif best in overall and baseline in overall:
        dev = f" {sheet_tables.score_cell(overall[best])} on dev;" if held_out else ""
        difference = sheet_tables.difference_cell(overall[best]["difference"])
        base = sheet_tables.score_cell(overall[baseline])
        text += f";{dev} the baseline has {base} (difference {difference})"
    if not several_seeds(scores.values()):
        text += f"; {sheet_tables.ONE_SEED}"
    return f"{text}."


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _tiles(comparison: Comparison) -> list[Tile]:
    """Build a tile for the mean and one per task: the best group next to the baseline.

    The held-out rows say which group is best, if there are any.
    """
    titles = columns(comparison)
    first = [-1] if len(comparison["tasks"]) > 1 else []
    return [
        _tile(
            comparison["baseline"],
            "mean of the tasks" if at < 0 else titles[at],
            column,
            _held_out(comparison, at),
        )
        for at in (*first, *range(len(comparison["tasks"])))
        if (column := _column(comparison, at))
    ]


def _tile(
    baseline: str, title: str, entries: Mapping[str, Scores], held_out: Mapping[str, Scores]
) -> Tile:
    candidates = {name: each for name, each in held_out.items() if name in entries} or entries
    best = _best(candidates)
    entry = entries[best]
    who = f'best of {len(candidates)}: "{best}"' if len(candidates) > 1 else f'"{best}"'
    flags, references = [], {}
    if best == baseline:
        who += ", the baseline"
    elif baseline in entries:
        references["baseline"] = entries[baseline]["mean"]
        difference = entry["difference"]
        if difference and rows_only(difference):
            flags.append(sheet_tables.ONE_SEED)
        elif not (significant(difference) and difference and difference["value"] > 0):
            flags.append("not clearly better than the baseline")
    return Tile(title, who, entry["mean"], entry["low"], entry["high"], references, flags)


def _differences(comparison: Comparison) -> list[Section]:
    """List the differences, the clear ones in bold; the interval is the second line of a cell."""
    found = differences(comparison)
    if not found:
        return []
    rows = [[name, *map(_two_lines, row)] for name, row in found.items()]
    marked = {
        (line, 1 + at)
        for line, row in enumerate(found.values())
        for at, each in enumerate(row)
        if significant(each)
    }
    table = Table(("group", *columns(comparison)), rows, frozenset(marked))
    text = [] if not marked else [Text(f"Bold: p below {SIGNIFICANT}.")]
    title = sheet_tables.difference_title(comparison)
    verdicts = Lines(comparison.get("verdicts", []))
    return [Section(title, [*text, table, verdicts], label="Differences")]


def _two_lines(difference: Difference | None) -> str:
    if difference is None:
        return "-"
    value, interval, p = sheet_tables.difference_parts(difference)
    return f"{value} {p}\n{interval}"


def settings_table(groups: Sequence[ComparedGroup]) -> Table | None:
    """Build the table of the settings in which groups differ; None if there is no such setting.

    Groups are the rows, unless there are more keys than groups. ``-`` is a key that a group does
    not have.
    """
    keys = list(dict.fromkeys(key for group in groups for key in group["settings"]))
    if not keys:
        return None
    rows = [
        [
            group["name"],
            *(shown(group["settings"][key]) if key in group["settings"] else "-" for key in keys),
        ]
        for group in groups
    ]
    if len(groups) >= len(keys):
        return Table(("group", *keys), rows)
    names, *columns = zip(*rows, strict=True)
    turned = [[key, *column] for key, column in zip(keys, columns, strict=True)]
    return Table(("key", *names), turned)


def _grid_sections(directory: Path, comparison: Comparison) -> list[Section]:
    """Show heat maps of pairs of axes and the means along each axis, for two axes or more."""
    long = long_axes(comparison)
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
        for title, file in heatmap_files(directory, comparison).items()
    ]
    means = [
        Section(axis["key"], [marginal_table(comparison, axis)])
        for axis in (comparison["axes"][i] for i in long)
    ]
    return [
        Section("Heat maps", [Text(f"{caption} The figures differ in their scale.")], maps),
        Section("Means along the axes", [Text(MARGINALS)], means, label="Axes"),
    ]


def marginal_table(comparison: Comparison, axis: Axis) -> Table:
    """Build the table of an axis: a row per value; the best score of each column is marked."""
    labels = axis_labels(axis)
    lines = [each for each in comparison["marginals"] if each["axis"] == axis["key"]]
    means = [[*line["tasks"].values(), line["overall"]] for line in lines]
    rows = []
    for line, scores in zip(lines, means, strict=True):
        counts = sorted({entry["cells"] for entry in scores if entry})
        cells = " to ".join(map(str, dict.fromkeys((*counts[:1], *counts[-1:]))))
        rows.append([labels[line["label"]], cells, *map(sheet_tables.score_cell, scores)])
    header = ("value", "cells", *columns(comparison))
    return Table(header, rows, sheet_tables.best_cells(means, 2))


def _curves(directory: Path, comparison: Comparison) -> list[Section]:
    drawn = curve_groups(comparison)
    if not drawn:
        return []
    text = "Scores on the split that selects, mean over seeds."
    total = len(comparison["groups"])
    if len(drawn) < total:
        which = "those with a log" if len(drawn) < MAX_CURVES else "the best"
        if which == "the best" and comparison["baseline"] in drawn:
            which = "the baseline and the best"
        text += f" {len(drawn)} of {total} groups: {which}."
    alt = f"Each task's metric at every evaluation, for {', '.join(drawn)}"
    gap = "Each task's loss on the split that selects minus its training loss, at every evaluation"
    figures = [Image(directory / CURVES, alt), Image(directory / GAPS, gap)]
    return [Section("Learning curves", [Text(text), *figures])]


def _transfer(comparison: Comparison) -> list[Section]:
    parts = [
        *_section(sheet_tables.GAIN_TITLE, sheet_tables.gain_table(comparison)),
        *_section(sheet_tables.MATRIX_TITLE, sheet_tables.matrix_table(comparison)),
    ]
    return [Section("Transfer between tasks", parts=parts, label="Transfer")] if parts else []


def _runs(groups: Sequence[ComparedGroup]) -> Table:
    rows = [
        [group["name"], str(seed), run]
        for group in groups
        for seed, run in zip(group["seeds"], group["runs"], strict=True)
    ]
    return Table(("group", "seed", "directory"), rows)
