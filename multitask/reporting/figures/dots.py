"""The figures of scores: a comparison, a paper's table next to the paper, and a search."""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
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
from multitask.store.run_directory import RunDirectory

IN_A_ROW = 4
# More curves than colours are hard to tell apart.
MAX_CURVES = len(style.GROUPS)
# characters per line of a method's name, of a panel's title, and of a task below the axis
NAME, PANEL_TITLE, TICK = 48, 30, 14


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
    if table["statistic"] != "sd" and any(any(_gains(table, row)) for row in table["rows"]):
        figures[directory / "paper_gain.png"] = draw_gains(table)
    return style.save_figures(figures)


def draw_scores(table: Sheet) -> "style.Figure":
    """Draw a panel per column with runs of ours: each row's seeds, mean and interval.

    A comparison has the 95 % interval of the mean, and the baseline's mean as a dashed line. A
    paper's table has the standard deviation and the printed value; the median replaces the mean if
    the table shows medians, and a table of standard deviations shows these alone. The axes of all
    its panels span the same number of points, as in MaxPoolBERT's Figure 3, so that distances can
    be compared between panels. Rows are listed down the side; the points of a ``curve`` are joined
    from left to right.
    """
    statistic, curve = table["statistic"], table.get("curve")
    columns: dict[str, list[Any]] = {}
    for name, column in table["columns"].items():
        cells: list[Any] = [row["cells"].get(name) for row in table["rows"]]
        if any(cell and cell["values"] for cell in cells):
            columns[style.wrapped(column["title"], PANEL_TITLE)] = cells
    names = _names([row["title"] for row in table["rows"]])
    lines_of_names = sum(name.count("\n") + 1 for name in names)
    size = (2.6, 2.9 if curve else max(2.2, 0.9 + 0.21 * lines_of_names))
    shared = {"sharex" if curve else "sharey": True}
    edge = (1.2 if curve else 3.0, 0.6)
    figure, places = style.panels(list(columns), size, edge, IN_A_ROW, **shared)
    labels = {"seed": "one seed", "printed": "paper", "mean": f"ours: {statistic}"}
    labels["interval"] = "ours: ± standard deviation over seeds"
    if not table["paper"]:
        labels |= {"mean": "mean", "best": "best mean", "interval": "95 % interval of the mean"}
    for axes, cells in zip(places, columns.values(), strict=False):
        shown = _spreads(cells, statistic) if table["paper"] else _intervals(cells)
        _dots(axes, shown, labels, upright=bool(curve))
        if curve:
            axes.set_xticks(range(len(names)), names)
            axes.set_xlabel(curve)
    if not curve:
        places[0].set_yticks(range(len(names)), names)  # of all panels, the first on top
        places[0].set_ylim(len(names) - 0.5, -0.5)
    if table["paper"]:
        _span_alike(places, upright=bool(curve), start=0.0 if statistic == "sd" else None)
    else:
        _mark_baseline(table, places, list(columns.values()))
    style.legend_below(figure)
    return figure


def _spreads(cells: Sequence[Any], statistic: str) -> list[Row | None]:
    """Return the dots of a paper's column: the standard deviation around what the table shows."""
    rows: list[Row | None] = []
    for cell in cells:
        middle, sd = cell and cell.get(statistic), cell and cell.get("sd")
        row = cell and {"mean": middle, "printed": cell.get("printed")}
        if row and statistic != "sd":
            row["values"] = cell["values"]
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


def _span_alike(places: "Sequence[style.Axes]", *, upright: bool, start: float | None) -> None:
    """Let the scores of all panels span as many points; they begin at ``start`` if it is given."""
    limits = [axes.get_ylim() if upright else axes.get_xlim() for axes in places]
    span = max(high - (low if start is None else start) for low, high in limits)
    for axes, (low, high) in zip(places, limits, strict=True):
        begin = (low + high - span) / 2 if start is None else start
        (axes.set_ylim if upright else axes.set_xlim)(begin, begin + span)


def _names(titles: Sequence[str]) -> list[str]:
    return [textwrap.fill(name, NAME) for name in style.labels(titles, width=style.LONGEST)]


def draw_gains(table: Sheet) -> "style.Figure":
    """Draw the gain over the baseline, with its interval, by the number of training rows.

    The paper's gains are open marks next to ours. If the columns are sizes of training sets
    (``cells``), each task is a line; else each task is a point, in the order of their sizes. The
    first column of a task counts.
    """
    by_size = any(column.get("cells") for column in table["columns"].values())
    point = f"{table['curve']} = " if table.get("curve") else ""
    series: dict[str, dict[str, Row]] = {}
    sizes: dict[str, tuple[int, str]] = {}  # of the ticks, with the column's title
    for row in table["rows"]:
        title = sheet.compared_title(table, row)
        for task, column, size, gain in _gains(table, row):
            tick = f"{size:,}" if by_size else f"{style.wrapped(column, TICK)}\n{size:,}"
            sizes[tick] = (size, column)
            name = f"{title}, {task}" if by_size else point + title
            series.setdefault(name, {})[tick] = gain
    ticks = sorted(sizes, key=lambda tick: sizes[tick])
    width = max(7.5, 1.6 + max(1.1, 0.24 * len(series)) * len(ticks))
    figure, (axes,) = style.panels([""], (width, 4.5))
    names, key = _names(list(series)), "open mark: the paper's gain"
    open_mark: style.Look = {"linestyle": "none", "markerfacecolor": "none"}
    for number, gains in enumerate(series.values()):
        look = style.group_style(number) | {"linestyle": "-" if by_size else "none"}
        places = np.array([ticks.index(tick) for tick in gains]) + style.aside(number, len(series))
        keys = ("mean", "low", "high", "printed")
        value, low, high, paper = (style.numbers(gain[k] for gain in gains.values()) for k in keys)
        bars = np.maximum(0.0, [value - low, high - value])
        axes.errorbar(places, value, bars, **look, capsize=2, label=names[number])
        axes.plot(places + 0.25 / len(series), paper, **look | open_mark)
    if any(gain["printed"] is not None for gains in series.values() for gain in gains.values()):
        axes.plot([], [], marker=style.MARKERS[0], color=style.DARK, label=key, **open_mark)
    axes.axhline(0, **style.LOOKS["zero"])
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlabel("training rows")
    one = sheet.has_one_baseline(table)
    base = sheet.title_of(table, table["baseline"]) if one else "each row's baseline"
    axes.set_ylabel(f"{style.wrapped(f'gain over {base}', 40)}\nin points, 95 % interval")
    style.legend_below(figure, [*names, key])
    return figure


def _gains(table: Sheet, row: sheet.Row) -> Iterator[tuple[str, str, int, Row]]:
    """Yield task, column's title, training rows and difference to the baseline in points.

    There is one per task and size of the training set. The paper's difference is ``printed``.
    """
    done = set()
    base = sheet.baseline_of(table, row)
    for name, cell in row["cells"].items():
        column, gain = table["columns"][name], cell.get("difference")
        size = sheet.facts(row, name).get("train_rows")
        task, label = column.get("of") or column.get("task", ""), column.get("cells")
        if gain and size and (task, label) not in done and None not in (gain["value"], gain["low"]):
            done.add((task, label))
            other = base["cells"].get(name) if base else None
            ours, its = cell.get("printed"), other.get("printed") if other else None
            paper = None if ours is None or its is None else ours - its
            shown = {"mean": gain["value"], "low": gain["low"], "high": gain["high"]}
            yield task, column["title"], size, {**shown, "printed": paper}


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
