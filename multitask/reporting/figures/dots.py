"""The figures of scores: a comparison, a paper's table next to the paper, and a search."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from multitask.reporting import sheet
from multitask.reporting.figures import style
from multitask.reporting.figures.curves import draw_curve_bands, loss_gaps
from multitask.reporting.figures.maps import draw_heatmaps
from multitask.reporting.grid_axes import heatmaps, long_axes
from multitask.reporting.sheet import MEAN, Sheet
from multitask.reporting.verdicts import significant
from multitask.store.run_directory import RunDirectory

IN_A_ROW = 4
FULL = 100.0  # of a paper's table, whose scores are in percent
# More curves than colours are hard to tell apart.
MAX_CURVES = len(style.GROUPS)
# characters per line of a method's name, of a panel's title, and of a task below the axis
NAME, PANEL_TITLE = 36, 28
# inches of a letter of a method's name, and around the longest name
LETTER, AROUND = 0.09, 0.5
# characters per line of a panel's title in a figure of gains
GAIN_TITLE = 22


def draw_all(directory: Path, comparison: Sheet) -> list[Path]:
    """Write every figure: the scores of all groups, the grid's heat maps, the learning curves."""
    figures = {directory / "figure.png": draw_scores(comparison)}
    maps = heatmap_files(directory, comparison)
    for (title, file), column in zip(maps.items(), comparison["columns"], strict=False):
        figures[file] = draw_heatmaps(heatmaps(comparison, column), title)
    if drawn := curve_groups(comparison):
        figures[directory / sheet.CURVES] = draw_curve_bands(drawn)
        gaps = draw_curve_bands(drawn, loss_gaps, "loss above the training loss,")
        figures[directory / sheet.GAPS] = gaps
    return style.save_figures(figures)


def heatmap_files(directory: Path, comparison: Sheet) -> dict[str, Path]:
    """Return the heat maps' files by column title; none for a grid of fewer than two axes.

    With several tasks, the map of their mean comes last.
    """
    if len(long_axes(comparison.get("axes", []))) < 2:
        return {}
    names = [f"heatmap_{task}.png" for task in sheet.tasks(comparison)]
    if len(names) > 1 and any(MEAN in row["cells"] for row in comparison["rows"]):
        names.append("heatmap.png")
    files = [directory / name for name in names]
    return dict(zip(sheet.titles(comparison), files, strict=False))


def curve_groups(comparison: Sheet) -> dict[str, list[Path]]:
    """Return the runs of the groups whose learning curves are drawn.

    These are all groups with a log. Of more than ``MAX_CURVES`` groups, they are the baseline, then
    the groups that are best in some column, then the others by their mean over tasks.
    """
    runs = {row["name"]: [*map(Path, row["runs"])] for row in comparison["rows"]}

    def rank(row: sheet.Row) -> tuple[bool, bool, float]:
        best = any(cell["best"] for cell in row["cells"].values())
        overall = row["cells"].get(MEAN)
        mean = -math.inf if overall is None or overall["mean"] is None else overall["mean"]
        return row["name"] != comparison["baseline"], not best, -mean

    logged = [
        row["name"]
        for row in sorted(comparison["rows"], key=rank)
        if all(RunDirectory(run).metrics.is_file() for run in runs[row["name"]])
    ]
    return {name: paths for name, paths in runs.items() if name in logged[:MAX_CURVES]}


# the scores of a row in one panel, as in a sheet: "values" of the seeds, "mean" (or what else the
# table shows), "low" and "high" of a bar, "best", "printed" in the paper; each may be missing
Row = Mapping[str, Any]


def _dots(
    axes: "style.Axes", rows: Sequence[Row | None], labels: Mapping[str, str], upright: bool = False
) -> None:
    """Draw rows of dots, the first on top; ``upright``: side by side, with their means joined.

    ``labels`` are the legend's for the looks "seed", "interval", "mean", "best" and "printed".
    """
    known = [(place, row) for place, row in enumerate(rows) if row]
    joined = {"linestyle": "-" if upright else "none"}

    def draw(look: str, points: list[tuple[int, Any]], **more: Any) -> None:
        points = [point for point in points if point[1] is not None]
        if points:
            places, scores = zip(*points, strict=True)
            both = (places, scores) if upright else (scores, places)
            axes.plot(*both, **style.LOOKS[look] | more, label=labels[look])

    draw("seed", [(place, seed) for place, row in known for seed in row.get("values", ())])
    for place, row in known:
        draw("interval", [(place, row.get("low")), (place, row.get("high"))])
    draw("mean", [(place, row["mean"]) for place, row in known if not row.get("best")], **joined)
    draw("best", [(place, row["mean"]) for place, row in known if row.get("best")])
    draw("printed", [(place, row.get("printed")) for place, row in known], **joined)
    style.quiet_frame(axes, across=not upright)


def draw_paper_table(directory: Path, table: Sheet) -> list[Path]:
    """Write the figures that the table has numbers for; return their paths.

    Gains are differences of means, so a table of standard deviations has no figure of them.
    """
    figures = {directory / "paper_scores.png": draw_scores(table)}
    gains = any(_gain(table, row, name) for row in table["rows"] for name in table["columns"])
    if table["statistic"] != "sd" and gains:
        figures[directory / "paper_gain.png"] = draw_gains(table)
    return style.save_figures(figures)


def draw_scores(table: Sheet) -> "style.Figure":
    """Draw a panel per column with runs of ours: each row's seeds, mean and interval.

    A comparison has the 95 % interval of the mean, and the baseline's mean as a dashed line. A
    paper's table has the standard deviation and the printed value; the median replaces the mean if
    the table shows medians, and a table of standard deviations shows these alone. The axes of all
    its panels span the same number of points, as in MaxPoolBERT's Figure 3, so that distances can
    be compared between panels. Rows are listed down the side. The points of a ``curve`` are joined
    from left to right; ours and the paper's are each drawn above their own baseline, as another
    encoder may score so differently that both curves would be flat on one axis.
    """
    statistic, curve = table["statistic"], table.get("curve")
    columns: dict[str, list[Any]] = {}
    for name, column in table["columns"].items():
        cells: list[Any] = [row["cells"].get(name) for row in table["rows"]]
        if any(cell and cell["values"] for cell in cells):
            columns[style.wrapped(column["title"], PANEL_TITLE)] = cells
    names = _names([row["title"] for row in table["rows"]])
    relative = bool(curve) and statistic != "sd"
    base = [row["name"] for row in table["rows"]].index(table["baseline"]) if relative else None
    lines_of_names = sum(name.count("\n") + 1 for name in names)
    size = (2.4, 2.9 if curve else max(2.2, 0.9 + 0.21 * lines_of_names))
    shared = {"sharex" if curve else "sharey": True}
    edge = (1.2 if curve else _side(names), 0.6)
    figure, places = style.panels(list(columns), size, edge, IN_A_ROW, **shared)
    labels = {"seed": "one seed", "printed": "paper", "mean": f"ours: {statistic}"}
    labels["interval"] = "ours: ± standard deviation over seeds"
    if not table["paper"]:
        labels |= {"mean": "mean", "best": "best mean", "interval": "95 % interval of the mean"}
    for axes, cells in zip(places, columns.values(), strict=False):
        shown = _spreads(cells, statistic, base) if table["paper"] else _intervals(cells)
        _dots(axes, shown, labels, upright=bool(curve))
        if curve:
            axes.set_xticks(range(len(names)), names)
            axes.set_xlabel(curve)
    if not curve:
        places[0].set_yticks(range(len(names)), names)  # of all panels, the first on top
        places[0].set_ylim(len(names) - 0.5, -0.5)
    if base is not None:
        places[0].set_ylabel(f"points above {curve} = {names[base]}")
    if table["paper"]:
        start = 0.0 if statistic == "sd" else None
        style.span_alike(places, upright=bool(curve), start=start, end=FULL)
    else:
        _mark_baseline(table, places, list(columns.values()))
    style.legend_below(figure)
    return figure


def _spreads(cells: Sequence[Any], statistic: str, base: int | None = None) -> list[Row | None]:
    """Return the dots of a paper's column: the standard deviation around what the table shows.

    With ``base``, ours and the paper's are above those of that row.
    """
    zero = {} if base is None else cells[base] or {}

    def above(value: float | None, key: str) -> float | None:
        if base is None or value is None:
            return value
        return None if zero.get(key) is None else value - zero[key]

    rows: list[Row | None] = []
    for cell in cells:
        middle, sd = cell and above(cell.get(statistic), statistic), cell and cell.get("sd")
        row = cell and {"mean": middle, "printed": above(cell.get("printed"), "printed")}
        if row and statistic != "sd":
            row["values"] = [above(value, statistic) for value in cell["values"]]
            if middle is not None and sd is not None:
                row |= {"low": middle - sd, "high": middle + sd}
        rows.append(row)
    return rows


def _intervals(cells: Sequence[Any]) -> list[Row | None]:
    """Return the dots of a comparison's column; no mean is the best one if a row has one seed."""
    several = sheet.several_seeds(cells)
    return [cell and {**cell, "best": cell["best"] and several} for cell in cells]


def _mark_baseline(
    table: Sheet, places: "Sequence[style.Axes]", columns: Sequence[Sequence[Any]]
) -> None:
    """Draw the baseline's mean as a line in each panel, and its name in bold."""
    at = [row["name"] for row in table["rows"]].index(table["baseline"])
    for axes, cells in zip(places, columns, strict=False):
        if cells[at] and cells[at]["mean"] is not None:
            label = "mean of the baseline (bold name)"
            axes.axvline(cells[at]["mean"], **style.LOOKS["level"], label=label)
    for first in places[::IN_A_ROW]:
        first.get_yticklabels()[at].set_fontweight("bold")


def _names(titles: Sequence[str]) -> list[str]:
    return [textwrap.fill(name, NAME) for name in style.labels(titles, width=style.LONGEST)]


def _side(names: Sequence[str]) -> float:
    """Return the inches that the names of rows need."""
    return AROUND + LETTER * max(len(line) for name in names for line in name.splitlines())


def draw_gains(table: Sheet) -> "style.Figure":
    """Draw the difference of each row to its baseline, with its interval, and the paper's.

    If the columns are sizes of training sets (``cells``), each task is a line over them. Else each
    column is a panel with a row per method; a filled mark is a significant difference. All panels
    have one scale, on which a few long intervals squeeze no other.
    """
    if any(column.get("cells") for column in table["columns"].values()):
        return _gains_by_size(table)
    rows = [row for row in table["rows"] if any(_gain(table, row, c) for c in table["columns"])]
    columns = {
        name: gains
        for name in table["columns"]
        if any(gains := [_gain(table, row, name) for row in rows])
    }
    titles, sizes = [], {name: _rows_of(table, name) for name in columns}
    if all(sizes.values()):
        columns = dict(sorted(columns.items(), key=lambda item: sizes[item[0]]))
    for name in columns:
        trained = f"\n{sizes[name]:,} training rows" if sizes[name] else ""
        titles.append(style.wrapped(table["columns"][name]["title"], GAIN_TITLE) + trained)
    names = _names([sheet.compared_title(table, row) for row in rows])
    lines_of_names = sum(name.count("\n") + 1 for name in names)
    size = (2.2, max(1.6, 1.2 + 0.23 * lines_of_names))
    figure, places = style.panels(titles, size, (_side(names), 0.4), IN_A_ROW, sharey=True)
    for axes, gains in zip(places, columns.values(), strict=False):
        _forest(axes, gains)
    style.limit_intervals(places, list(columns.values()))
    places[0].set_yticks(range(len(names)), names)
    places[0].set_ylim(len(names) - 0.5, -0.5)
    title = f"Difference of the mean to {_base(table)}, in points"
    across = int(figure.get_figwidth() / LETTER)
    figure.suptitle(textwrap.fill(title, across), fontsize=style.TITLE)
    style.legend_below(figure)
    return figure


def _forest(axes: "style.Axes", gains: Sequence[Row | None]) -> None:
    """Draw a row per difference: its interval, its mark, and the paper's."""
    for place, gain in enumerate(gains):
        if not gain:
            continue
        look = style.LOOKS["significant" if gain["significant"] else "not_significant"]
        label = "significant" if gain["significant"] else "not significant"
        bar = style.LOOKS["interval"] | {"color": look["markeredgecolor"]}
        axes.plot([gain["low"], gain["high"]], [place] * 2, **bar, label="95 % interval")
        axes.plot([gain["mean"]], [place], **look, label=label)
        if gain["printed"] is not None:
            printed = style.LOOKS["printed"] | {"linestyle": "none"}
            axes.plot([gain["printed"]], [place], **printed, label="paper")
    axes.axvline(0, **style.LOOKS["zero"])
    style.quiet_frame(axes, across=True)


def _base(table: Sheet) -> str:
    one = sheet.has_one_baseline(table)
    return (
        style.label(sheet.title_of(table, table["baseline"]), 40) if one else "each row's baseline"
    )


def _rows_of(table: Sheet, column: str) -> int:
    """Return the rows of a column's training set; 0 if it is not known or rows differ in it."""
    found = {sheet.facts(row, column).get("train_rows") for row in table["rows"]
             if column in row["cells"]}  # fmt: skip
    known = found - {None}
    return known.pop() or 0 if len(known) == 1 else 0


def _gains_by_size(table: Sheet) -> "style.Figure":
    """Draw a line per row and task over the sizes of the training set."""
    series: dict[str, dict[int, Row]] = {}
    for row in table["rows"]:
        for name, column in table["columns"].items():
            gain, size = _gain(table, row, name), sheet.facts(row, name).get("train_rows")
            if gain and size:
                task = column.get("of") or column.get("task")
                of_task = series.setdefault(f"{sheet.compared_title(table, row)}, {task}", {})
                of_task.setdefault(size, gain)  # the first metric of a task
    sizes = sorted({size for gains in series.values() for size in gains})
    width = max(7.5, 1.6 + max(1.1, 0.24 * len(series)) * len(sizes))
    figure, (axes,) = style.panels([""], (width, 4.5))
    names, key = _names(list(series)), "open mark: the paper's gain"
    open_mark: style.Look = {"linestyle": "none", "markerfacecolor": "none"}
    for number, gains in enumerate(series.values()):
        look = style.group_style(number) | {"linestyle": "-"}
        places = np.array([sizes.index(size) for size in gains]) + style.aside(number, len(series))
        keys = ("mean", "low", "high", "printed")
        value, low, high, paper = (style.numbers(gain[k] for gain in gains.values()) for k in keys)
        bars = np.maximum(0.0, [value - low, high - value])
        axes.errorbar(places, value, bars, **look, capsize=2, label=names[number])
        axes.plot(places + 0.25 / len(series), paper, **look | open_mark)
    if any(gain["printed"] is not None for gains in series.values() for gain in gains.values()):
        axes.plot([], [], marker=style.MARKERS[0], color=style.DARK, label=key, **open_mark)
    axes.axhline(0, **style.LOOKS["zero"])
    axes.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axes.set_xlabel("training rows")
    axes.set_ylabel(f"{textwrap.fill(f'gain over {_base(table)}', 40)}\nin points, 95 % interval")
    style.legend_below(figure, [*names, key])
    return figure


def _gain(table: Sheet, row: sheet.Row, column: str) -> Row | None:
    """Return a row's difference to its baseline in points, with the paper's as ``printed``."""
    cell, base = row["cells"].get(column), sheet.baseline_of(table, row)
    gain = cell.get("difference") if cell else None
    if not cell or not gain or None in (gain["value"], gain["low"]):
        return None
    value, low, high = (
        gain[key] if table["paper"] else 100 * gain[key] for key in ("value", "low", "high")
    )
    paper = sheet.printed_difference(cell, base["cells"].get(column) if base else None)
    return {"mean": value, "low": low, "high": high, "printed": paper,
            "significant": significant(gain)}  # fmt: skip


def draw_history(
    scores: Mapping[str, Mapping[int, float]], pruned: Sequence[int]
) -> "style.Figure":
    """Draw a panel per objective: the score of each finished trial, and the best so far.

    ``scores`` are by objective and number of the trial; ``pruned`` are the numbers of the trials
    that were stopped early, which are marked below.
    """
    titles = [f"holdout: {style.label(name)}" for name in scores]
    figure, places = style.panels(titles, (4.2, 3.6), (1.0, 0), IN_A_ROW)
    for axes, by_number in zip(places, scores.values(), strict=False):
        numbers = sorted(by_number)
        values = [by_number[number] for number in numbers]
        best = list(accumulate(values, max))
        axes.step(numbers, best, where="post", color=style.ORANGE, label="best so far")
        axes.plot(numbers, values, **style.LOOKS["seed"], label="a finished trial")
        if by_number:
            first = max(by_number, key=lambda number: by_number[number])
            axes.plot(first, by_number[first], **style.LOOKS["best"], label="best trial")
        if pruned:
            look: style.Look = {"linestyle": "none", "marker": "x", "color": style.GREY}
            where, low = axes.get_xaxis_transform(), [0.03] * len(pruned)
            axes.plot(pruned, low, **look, transform=where, label="pruned (no score)")
        axes.set(xlabel="trial", ylabel="score")
        axes.locator_params(axis="x", integer=True)
    style.legend_below(figure)
    return figure


def draw_importance(importance: Mapping[str, Mapping[str, float]]) -> "style.Figure":
    """Draw a panel per objective: the share of the score's variance that each key explains."""
    keys = list(dict.fromkeys(key for shares in importance.values() for key in shares))
    titles = [f"holdout: {style.label(name)}" for name in importance]
    size = (3.2, 1.2 + 0.35 * len(keys))
    figure, places = style.panels(titles, size, (2.4, 0), IN_A_ROW, sharey=True)
    for axes, shares in zip(places, importance.values(), strict=False):
        axes.barh(range(len(keys)), [shares.get(key, 0.0) for key in keys], color=style.BLUE)
        axes.set(xlabel="importance", xlim=(0, 1))
        style.quiet_frame(axes, across=True)
    places[0].set_yticks(range(len(keys)), style.labels(keys, width=40))
    places[0].invert_yaxis()
    return figure
