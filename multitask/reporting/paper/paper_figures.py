"""The figures of a paper's table: scores with their spread, gain by training size, a curve."""

import itertools
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from multitask.reporting.figures import style
from multitask.reporting.paper.paper_json import PaperCell, PaperRow, PaperTable

PANELS_IN_A_ROW = 4


@dataclass(frozen=True)
class Gain:
    """The gain of a row over the baseline.

    Attributes:
        task: the task.
        title: the title of the column.
        size: the number of training rows.
        value, low, high: the gain in points and its 95 % interval.
    """

    task: str
    title: str
    size: int
    value: float
    low: float
    high: float


def draw_paper_table(directory: Path, table: PaperTable) -> list[Path]:
    """Write the figures that the table has numbers for; return their paths."""
    figures = {"paper_scores.png": draw_scores(table)}
    if any(_gains(table, row) for row in table["rows"]):
        figures["paper_gain.png"] = draw_gains(table)
    for name, figure in figures.items():
        style.save_figure(figure, directory / name)
    return [directory / name for name in figures]


def draw_scores(table: PaperTable) -> "style.Figure":
    """Draw a panel per column with runs of ours: each row's seeds, mean, spread, printed value.

    The median replaces the mean if the table shows medians. Rows are joined if they are the points
    of a ``curve``.
    """
    places = [
        place
        for place in range(len(table["columns"]))
        if any(cell and cell["values"] for cell in _column(table, place))
    ]
    figure, axes = style.panels(
        len(places),
        PANELS_IN_A_ROW,
        lambda columns, lines: (1.2 + 3.0 * columns, 0.6 + 2.9 * lines),
        sharex=True,
    )
    for panel, place in zip(axes, places, strict=False):
        _scores(panel, table, place)
    style.legend_below(figure)
    return figure


def _column(table: PaperTable, place: int) -> list[PaperCell | None]:
    return [row["cells"][place] for row in table["rows"]]


def _scores(axes: "style.Axes", table: PaperTable, place: int) -> None:
    joined = "-" if table["curve"] else "none"
    middle: Literal["median", "mean"] = "median" if table["statistic"] == "median" else "mean"
    cells = _column(table, place)
    for x, cell in enumerate(cells):
        values = [value for value in (cell["values"] if cell else []) if value is not None]
        axes.plot([x] * len(values), values, **style.LOOKS["our seed"], label="one seed")
    ours = [(x, c) for x, c in enumerate(cells) if c and c.get(middle) is not None]
    axes.errorbar(
        [x for x, _ in ours],
        [cell[middle] for _, cell in ours],
        [cell["sd"] or 0.0 for _, cell in ours],
        **style.LOOKS["ours"],
        linestyle=joined,
        label=f"ours: {middle} ± sd",
    )
    printed = [(x, c["printed"]) for x, c in enumerate(cells) if c and c["printed"] is not None]
    if printed and table["statistic"] != "sd":
        axes.plot(
            *zip(*printed, strict=True), **style.LOOKS["printed"], linestyle=joined, label="paper"
        )
    titles = style.labels([row["title"] for row in table["rows"]])
    axes.set_xticks(range(len(titles)), titles)
    if not table["curve"]:
        axes.tick_params(axis="x", rotation=90)
    axes.set_xlabel(table["curve"] or "")
    axes.set_title(_wrapped(table["columns"][place]["title"], 30), fontsize=style.TITLE)
    style.quiet_frame(axes)


def draw_gains(table: PaperTable) -> "style.Figure":
    """Draw the gain over the baseline, with its interval, by the number of training rows.

    If the columns are sizes of training sets (``cells``), each task is a line; else each task is a
    point, in the order of their sizes. The first column of a task counts.
    """
    by_size = any(column.get("cells") for column in table["columns"])
    series: dict[str, list[Gain]] = {}
    for row in table["rows"]:
        for gain in _gains(table, row):
            name = f"{row['title']}, {gain.task}" if by_size else row["title"]
            series.setdefault(name, []).append(gain)
    every = sorted(itertools.chain(*series.values()), key=lambda gain: (gain.size, gain.title))
    ticks = list(dict.fromkeys(_tick(gain, by_size) for gain in every))
    figure, axes = style.new_panel(max(7.5, 1.6 + 1.1 * len(ticks)), 4.5)
    names = style.labels(series)
    for number, gains in enumerate(series.values()):
        aside = 0.6 * ((number + 0.5) / len(series) - 0.5)
        value, low, high = np.array([(gain.value, gain.low, gain.high) for gain in gains]).T
        axes.errorbar(
            [ticks.index(_tick(gain, by_size)) + aside for gain in gains],
            value,
            np.maximum(0.0, [value - low, high - value]),
            color=style.GROUPS[number % len(style.GROUPS)],
            marker=style.MARKERS[number % len(style.MARKERS)],
            linestyle="-" if by_size else "none",
            **style.LOOKS["gain"],
            label=names[number],
        )
    axes.axhline(0, **style.LOOKS["no gain"])
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlabel("training rows")
    axes.set_ylabel(f"gain over {style.label(table['baseline_title'])} in points, 95 % interval")
    style.quiet_frame(axes)
    style.legend_below(figure)
    return figure


def _tick(gain: Gain, by_size: bool) -> str:
    return f"{gain.size:,}" if by_size else f"{_wrapped(gain.title, 14)}\n{gain.size:,}"


def _wrapped(title: str, width: int) -> str:
    """Wrap a title without cutting it: a text in parentheses may name the rows of a score."""
    return textwrap.fill(style.label(title, width=60), width)


def _gains(table: PaperTable, row: PaperRow) -> list[Gain]:
    """Return the row's difference to the baseline per task and size of the training set."""
    gains: dict[tuple[str, str | None], Gain] = {}
    for column, cell in zip(table["columns"], row["cells"], strict=True):
        difference = cell.get("difference") if cell else None
        rows = cell.get("train_rows") if cell else None
        if difference and rows and None not in (difference["value"], difference["low"]):
            task = column["of"] or column["task"]
            numbers = (difference["value"], difference["low"], difference["high"])
            gain = Gain(task, column["title"], rows, *numbers)
            gains.setdefault((task, column["cells"]), gain)
    return list(gains.values())
