"""The figures of a paper's table: scores with their spread, gains next to the paper's, a curve."""

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from multitask.reporting.figures import style
from multitask.reporting.paper.paper_json import (
    PaperCell,
    PaperRow,
    PaperTable,
    baseline_of,
    compared_title,
    has_one_baseline,
)

PANELS_IN_A_ROW = 4
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
