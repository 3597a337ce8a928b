"""The figures of scores: a comparison, a paper's table next to the paper, and a search."""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np

from multitask.reporting.compare import heatmaps, long_axes
from multitask.reporting.figures import style
from multitask.reporting.figures.curves import draw_curve_bands, loss_gaps
from multitask.reporting.figures.maps import draw_heatmaps
from multitask.reporting.sheet import (
    CURVES,
    GAPS,
    ComparedGroup,
    Comparison,
    PaperCell,
    PaperRow,
    PaperTable,
    Scores,
    baseline_of,
    columns,
    compared_title,
    has_one_baseline,
    several_seeds,
)
from multitask.store.run_directory import RunDirectory

PANELS_IN_A_ROW = 4
# More curves than colours are hard to tell apart.
MAX_CURVES = len(style.GROUPS)


def draw_all(directory: Path, comparison: Comparison) -> list[Path]:
    """Write every figure: the scores of all groups, the grid's heat maps, the learning curves."""
    figure, curves, gaps = (directory / name for name in ("figure.png", CURVES, GAPS))
    style.save_figure(draw_comparison(comparison), figure)
    maps = heatmap_files(directory, comparison)
    for (title, file), task in zip(maps.items(), (*comparison["tasks"], None), strict=False):
        style.save_figure(draw_heatmaps(heatmaps(comparison, task), title), file)
    drawn = curve_groups(comparison)
    if drawn:
        style.save_figure(draw_curve_bands(drawn), curves)
        gap_bands = draw_curve_bands(drawn, loss_gaps, "loss above the training loss,")
        style.save_figure(gap_bands, gaps)
    return [figure, *maps.values(), *([curves, gaps] if drawn else [])]


def heatmap_files(directory: Path, comparison: Comparison) -> dict[str, Path]:
    """Return the heat maps' files by column title; none for a grid of fewer than two axes.

    With several tasks, the map of their mean comes last.
    """
    if len(long_axes(comparison)) < 2:
        return {}
    names = [f"heatmap_{task}.png" for task in comparison["tasks"]]
    if len(names) > 1 and any(group["overall"] for group in comparison["groups"]):
        names.append("heatmap.png")
    return {
        title: directory / name for title, name in zip(columns(comparison), names, strict=False)
    }


def curve_groups(comparison: Comparison) -> dict[str, list[Path]]:
    """Return the runs of the groups whose learning curves are drawn.

    These are all groups with a log. Of more than ``MAX_CURVES`` groups, they are the baseline, then
    the groups that are best in some column, then the others by their mean over tasks.
    """
    runs = {group["name"]: [*map(Path, group["runs"])] for group in comparison["groups"]}
    logged = [
        group
        for group in comparison["groups"]
        if all(RunDirectory(run).metrics.is_file() for run in runs[group["name"]])
    ]

    def rank(group: ComparedGroup) -> tuple[bool, bool, float]:
        overall = group["overall"]
        entries = [*group["tasks"].values(), *([overall] if overall else [])]
        best = any(entry["best"] for entry in entries)
        mean = -math.inf if overall is None or overall["mean"] is None else overall["mean"]
        return group["name"] != comparison["baseline"], not best, -mean

    drawn = [group["name"] for group in sorted(logged, key=rank)[:MAX_CURVES]]
    return {name: paths for name, paths in runs.items() if name in drawn}


def draw_comparison(comparison: Comparison) -> "style.Figure":
    """Draw a panel per task and one for their mean: a line of dots per group, one dot per seed.

    The bar is the 95 % interval of the group's mean; the baseline's mean is a dashed line.
    """
    groups = comparison["groups"]
    names = [group["name"] for group in groups]
    scores = [
        (style.metric_title(task, kind["metric"]), [group["tasks"].get(task) for group in groups])
        for task, kind in comparison["tasks"].items()
    ]
    if len(scores) > 1:
        scores.append(("mean of the tasks", [group["overall"] for group in groups]))
    height = 1.3 + 0.3 * max(len(groups), 3)
    figure, axes = style.panels(
        len(scores),
        PANELS_IN_A_ROW,
        lambda columns, lines: (2.6 + 2.9 * columns, lines * height),
        sharey=True,
    )
    at = names.index(comparison["baseline"])
    for place, (title, entries) in zip(axes, scores, strict=False):
        _panel(place, entries, at)
        place.set_title(title, fontsize=style.TITLE)
    axes[0].set_yticks(range(len(names)), style.labels(names, width=44))
    axes[0].set_ylim(len(names) - 0.5, -0.5)  # the first group on top
    for first in axes[::PANELS_IN_A_ROW]:
        first.get_yticklabels()[at].set_fontweight("bold")
    style.legend_below(figure)
    return figure


def _panel(axes: "style.Axes", entries: list[Scores | None], baseline: int) -> None:
    base, several = entries[baseline], several_seeds(entries)
    if base and base["mean"] is not None:
        label = "mean of the baseline (bold name)"
        axes.axvline(base["mean"], **style.LOOKS["baseline"], label=label)
    for line, entry in enumerate(entries):
        if entry is None:
            continue
        seeds = [value for value in entry["values"] if value is not None]
        axes.plot(seeds, [line] * len(seeds), **style.LOOKS["seed"], label="one seed")
        if entry["mean"] is None:
            continue
        if entry["low"] is not None:
            label = "95 % interval of the group's mean"
            axes.hlines(line, entry["low"], entry["high"], **style.LOOKS["interval"], label=label)
        label = "best mean" if entry["best"] and several else "mean"
        axes.plot(entry["mean"], line, **style.LOOKS[label], label=label)
    style.quiet_frame(axes)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=5)


# characters per line of a method's name, of a panel's title, and of a task below the axis
NAME, PANEL_TITLE, TICK = 48, 30, 14


@dataclass(frozen=True)
class Gain:
    """The gain of a row over the baseline.

    Attributes:
        task: the task.
        title: the title of the column.
        size: the number of training rows.
        value, low, high: the gain in points and its 95 % interval.
        printed: the paper's gain in points; None if it prints none.
    """

    task: str
    title: str
    size: int
    value: float
    low: float
    high: float
    printed: float | None


def draw_paper_table(directory: Path, table: PaperTable) -> list[Path]:
    """Write the figures that the table has numbers for; return their paths.

    Gains are differences of means, so a table of standard deviations has no figure of them.
    """
    figures = {"paper_scores.png": draw_scores(table)}
    if table["statistic"] != "sd" and any(_gains(table, row) for row in table["rows"]):
        figures["paper_gain.png"] = draw_gains(table)
    for name, figure in figures.items():
        style.save_figure(figure, directory / name)
    return [directory / name for name in figures]


def draw_scores(table: PaperTable) -> "style.Figure":
    """Draw a panel per column with runs of ours: each row's seeds, mean, spread, printed value.

    The axes of all panels span the same number of points, as in MaxPoolBERT's Figure 3, so that
    distances can be compared between panels. The median replaces the mean if the table shows
    medians; a table of standard deviations shows these alone. Methods are listed down the side;
    the points of a ``curve`` are joined from left to right.
    """
    places = [
        place
        for place in range(len(table["columns"]))
        if any(cell and cell["values"] for cell in _column(table, place))
    ]
    names = _names([row["title"] for row in table["rows"]])
    lines_of_names = sum(name.count("\n") + 1 for name in names)
    curve = bool(table["curve"])
    figure, axes = style.panels(
        len(places),
        PANELS_IN_A_ROW,
        lambda columns, lines: (
            (1.2 if curve else 3.0) + 2.6 * columns,
            0.6 + lines * (2.9 if curve else max(2.2, 0.9 + 0.21 * lines_of_names)),
        ),
        **{"sharex" if curve else "sharey": True},
    )
    for panel, place in zip(axes, places, strict=False):
        _scores(panel, table, place)
        panel.set_title(
            style.wrapped(table["columns"][place]["title"], PANEL_TITLE), fontsize=style.TITLE
        )
    used = axes[: len(places)]
    if curve:
        for panel in used:
            panel.set_xticks(range(len(names)), names)
            panel.set_xlabel(table["curve"] or "")
    else:
        axes[0].set_yticks(range(len(names)), names)
        axes[0].set_ylim(len(names) - 0.5, -0.5)  # shared by all panels, the first row on top
    style.equal_spans(used, "y" if curve else "x", from_zero=table["statistic"] == "sd")
    style.legend_below(figure)
    style.make_room(figure)
    return figure


def _names(titles: Sequence[str]) -> list[str]:
    return [textwrap.fill(name, NAME) for name in style.labels(titles, width=style.LONGEST)]


def _column(table: PaperTable, place: int) -> list[PaperCell | None]:
    return [row["cells"][place] for row in table["rows"]]


def _scores(axes: "style.Axes", table: PaperTable, place: int) -> None:
    """Draw one column: by the place of the row from left to right, or from top to bottom."""
    curve, deviations = bool(table["curve"]), table["statistic"] == "sd"
    middle: Literal["median", "mean"] = "median" if table["statistic"] == "median" else "mean"
    joined = "-" if curve else "none"
    cells = [(place, cell) for place, cell in enumerate(_column(table, place)) if cell]

    def draw(points: Sequence[tuple[int, float]], look: str, label: str, **more: Any) -> None:
        by_place, scores = ([point[axis] for point in points] for axis in (0, 1))
        both = (by_place, scores) if curve else (scores, by_place)
        method: Any = axes.errorbar if look == "ours" else axes.plot
        method(*both, **style.LOOKS[look], label=label, **more)

    if not deviations:
        seeds = [(row, value) for row, cell in cells for value in cell["values"]]
        draw([seed for seed in seeds if seed[1] is not None], "our seed", "one seed")
    shown: Literal["sd", "median", "mean"] = "sd" if deviations else middle
    ours = [(row, cell) for row, cell in cells if cell.get(shown) is not None]
    spread = None if deviations else [cell["sd"] or 0.0 for _, cell in ours]
    label = "ours: standard deviation over seeds" if deviations else f"ours: {middle} ± sd"
    bars: dict[str, Any] = {"yerr" if curve else "xerr": spread, "linestyle": joined}
    draw([(row, cell[shown]) for row, cell in ours], "ours", label, **bars)
    printed = [(row, cell["printed"]) for row, cell in cells if cell["printed"] is not None]
    if printed:
        draw(printed, "printed", "paper", linestyle=joined)
    style.quiet_frame(axes, across=not curve)


def draw_gains(table: PaperTable) -> "style.Figure":
    """Draw the gain over the baseline, with its interval, by the number of training rows.

    The paper's gains are open marks next to ours. If the columns are sizes of training sets
    (``cells``), each task is a line; else each task is a point, in the order of their sizes. The
    first column of a task counts.
    """
    by_size = any(column.get("cells") for column in table["columns"])
    point = f"{table['curve']} = " if table["curve"] else ""
    series: dict[str, list[Gain]] = {}
    for row in table["rows"]:
        for gain in _gains(table, row):
            title = compared_title(table, row)
            name = f"{title}, {gain.task}" if by_size else point + title
            series.setdefault(name, []).append(gain)
    every = sorted(itertools.chain(*series.values()), key=lambda gain: (gain.size, gain.title))
    ticks = list(dict.fromkeys(_tick(gain, by_size) for gain in every))
    width = max(7.5, 1.6 + max(1.1, 0.24 * len(series)) * len(ticks))
    figure, axes = style.new_panel(width, 4.5)
    names = _names(list(series))
    for number, gains in enumerate(series.values()):
        look: dict[str, Any] = {
            "color": style.GROUPS[number % len(style.GROUPS)],
            "marker": style.MARKERS[number % len(style.MARKERS)],
        }
        aside = 0.8 * ((number + 0.5) / len(series) - 0.5)
        places = np.array([ticks.index(_tick(gain, by_size)) for gain in gains]) + aside
        value, low, high = np.array([(gain.value, gain.low, gain.high) for gain in gains]).T
        axes.errorbar(
            places,
            value,
            np.maximum(0.0, [value - low, high - value]),
            linestyle="-" if by_size else "none",
            **style.LOOKS["gain"],
            **look,
            label=names[number],
        )
        printed = style.numbers(gain.printed for gain in gains)
        axes.plot(places + 0.25 / len(series), printed, **style.LOOKS["printed gain"], **look)
    axes.axhline(0, **style.LOOKS["no gain"])
    key = "open mark: the paper's gain"
    if any(gain.printed is not None for gain in every):
        look = {"color": style.DARK, "marker": style.MARKERS[0]}
        axes.plot([], [], **style.LOOKS["printed gain"], **look, label=key)
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlabel("training rows")
    base = point + table["baseline_title"] if has_one_baseline(table) else "each row's baseline"
    baseline = style.wrapped(f"gain over {base}", 40)
    axes.set_ylabel(f"{baseline}\nin points, 95 % interval")
    style.quiet_frame(axes)
    style.legend_below(figure, [*names, key])
    style.make_room(figure)
    return figure


def _tick(gain: Gain, by_size: bool) -> str:
    return f"{gain.size:,}" if by_size else f"{style.wrapped(gain.title, TICK)}\n{gain.size:,}"


def _gains(table: PaperTable, row: PaperRow) -> list[Gain]:
    """Return the row's difference to the baseline per task and size of the training set."""
    gains: dict[tuple[str, str | None], Gain] = {}
    base = baseline_of(table, row)
    for place, (column, cell) in enumerate(zip(table["columns"], row["cells"], strict=True)):
        difference = cell.get("difference") if cell else None
        rows = cell.get("train_rows") if cell else None
        if difference and rows and None not in (difference["value"], difference["low"]):
            task = column["of"] or column["task"]
            numbers = (difference["value"], difference["low"], difference["high"])
            printed = cell["printed"] if cell else None
            other = base["cells"][place] if base else None
            base_printed = other["printed"] if other else None
            paper = None if printed is None or base_printed is None else printed - base_printed
            gain = Gain(task, column["title"], rows, *numbers, paper)
            gains.setdefault((task, column["cells"]), gain)
    return list(gains.values())


SEARCH_PANELS = 3


def draw_history(
    scores: Mapping[str, Mapping[int, float]], pruned: Sequence[int]
) -> "style.Figure":
    """Draw a panel per objective: the score of each finished trial, and the best so far.

    ``scores`` are by objective and number of the trial; ``pruned`` are the numbers of the trials
    that were stopped early, which are marked below.
    """
    figure, places = style.panels(
        len(scores),
        SEARCH_PANELS,
        lambda columns, rows: (1.0 + 4.2 * columns, 3.6 * rows),
    )
    for axes, (name, by_number) in zip(places, scores.items(), strict=False):
        numbers = sorted(by_number)
        values = [by_number[number] for number in numbers]
        best = list(accumulate(values, max))
        axes.step(numbers, best, where="post", color=style.ORANGE, label="best so far")
        axes.plot(numbers, values, **style.LOOKS["seed"], label="a finished trial")
        if by_number:
            first = max(by_number, key=lambda number: by_number[number])
            axes.plot(first, by_number[first], **style.LOOKS["best mean"], label="best trial")
        if pruned:
            low = [0.03] * len(pruned)
            where = axes.get_xaxis_transform()
            look = style.LOOKS["pruned"]
            axes.plot(pruned, low, **look, transform=where, label="pruned (no score)")
        axes.set(xlabel="trial", ylabel=f"holdout: {style.label(name)}")
        axes.locator_params(axis="x", integer=True)
        style.quiet_frame(axes)
    style.legend_below(figure)
    return figure


def draw_importance(importance: Mapping[str, Mapping[str, float]]) -> "style.Figure":
    """Draw a panel per objective: the share of the score's variance that each key explains."""
    keys = list(dict.fromkeys(key for shares in importance.values() for key in shares))
    figure, places = style.panels(
        len(importance),
        SEARCH_PANELS,
        lambda columns, rows: (2.4 + 3.2 * columns, rows * (1.2 + 0.35 * len(keys))),
        sharey=True,
    )
    for axes, (name, shares) in zip(places, importance.items(), strict=False):
        axes.barh(range(len(keys)), [shares.get(key, 0.0) for key in keys], color=style.BLUE)
        axes.set_title(f"holdout: {style.label(name)}", fontsize=style.TITLE)
        axes.set(xlabel="importance", xlim=(0, 1))
        style.quiet_frame(axes)
        axes.grid(axis="y", visible=False)
    places[0].set_yticks(range(len(keys)), style.labels(keys, width=40))
    places[0].invert_yaxis()
    return figure
