"""The figures of a paper's table: scores with their spread, gain by training size, a curve."""

import itertools
import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitask.reporting.figures.grid import COLOURS
from multitask.reporting.figures.style import (
    DARK,
    GREY,
    VERMILLION,
    label_text,
    legend_below,
    new_figure,
    quiet_frame,
    save_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_IN_A_ROW = 4
MARKERS = "osD^vP*X"


@dataclass(frozen=True)
class Gain:
    """What a row gains over the baseline, in points, by the rows that it was trained on."""

    task: str
    title: str
    size: int
    value: float
    low: float
    high: float


def draw_paper_table(directory: Path, table: dict[str, Any]) -> list[Path]:
    """Write the figures that the table has something for; returns their paths."""
    figures = {"paper_scores.png": draw_scores(table)}
    if any(_gains(table, row) for row in table["rows"]):
        figures["paper_gain.png"] = draw_gains(table)
    for name, figure in figures.items():
        save_figure(figure, directory / name)
    return [directory / name for name in figures]


def draw_scores(table: dict[str, Any]) -> "Figure":
    """A panel for each column with our runs: each row's seeds, mean, spread, and printed value.

    The median in place of the mean where the table shows that. Where the table's rows are points of
    a curve (``curve``), they are joined.
    """
    places = [
        place
        for place in range(len(table["columns"]))
        if any(row["cells"][place] and row["cells"][place]["values"] for row in table["rows"])
    ]
    columns = min(PANELS_IN_A_ROW, len(places))
    lines = math.ceil(len(places) / columns)
    figure = new_figure(1.2 + 3.0 * columns, 0.6 + 2.9 * lines)
    axes = list(figure.subplots(lines, columns, squeeze=False, sharex=True).flat)
    for panel, place in zip(axes, places, strict=False):
        _scores(panel, table, place)
    for panel in axes[len(places) :]:
        panel.set_visible(False)
    legend_below(figure)
    return figure


def _scores(axes: "Axes", table: dict[str, Any], place: int) -> None:
    joined = "-" if table["curve"] else "none"
    middle = "median" if table["statistic"] == "median" else "mean"
    cells = [row["cells"][place] for row in table["rows"]]
    for x, cell in enumerate(cells):
        values = [value for value in (cell or {}).get("values", []) if value is not None]
        axes.plot([x] * len(values), values, "o", color=GREY, markersize=3, label="one seed")
    ours = [(x, c) for x, c in enumerate(cells) if c and c.get(middle) is not None]
    axes.errorbar(
        [x for x, _ in ours],
        [cell[middle] for _, cell in ours],
        [cell["sd"] or 0.0 for _, cell in ours],
        color=DARK,
        linestyle=joined,
        marker="D",
        markersize=5,
        capsize=3,
        linewidth=1.2,
        label=f"ours: {middle} ± sd",
    )
    printed = [(x, c["printed"]) for x, c in enumerate(cells) if c and c["printed"] is not None]
    if printed and table["statistic"] != "sd":
        axes.plot(
            [x for x, _ in printed],
            [value for _, value in printed],
            color=VERMILLION,
            linestyle=joined,
            marker="x",
            markersize=6,
            label="paper",
        )
    titles = [label_text(row["title"]) for row in table["rows"]]
    axes.set_xticks(range(len(titles)), titles)
    if not table["curve"]:
        axes.tick_params(axis="x", rotation=90)
    axes.set_xlabel(table["curve"] or "")
    axes.set_title(_wrapped(table["columns"][place]["title"], 30), fontsize=11)
    quiet_frame(axes)


def draw_gains(table: dict[str, Any]) -> "Figure":
    """Gain over the baseline by the rows that were trained on, with its interval.

    A line for each task where the columns are sizes of its training set (``cells``), else a point
    for each task, in the order of their sizes. Of a task's metrics the first column counts.
    """
    by_size = any(column.get("cells") for column in table["columns"])
    series: dict[str, list[Gain]] = {}
    for row in table["rows"]:
        for gain in _gains(table, row):
            name = f"{row['title']}, {gain.task}" if by_size else row["title"]
            series.setdefault(name, []).append(gain)
    every = sorted(itertools.chain(*series.values()), key=lambda gain: (gain.size, gain.title))
    ticks = list(dict.fromkeys(_tick(gain, by_size) for gain in every))
    figure = new_figure(max(7.5, 1.6 + 1.1 * len(ticks)), 4.5)
    axes = figure.subplots()
    for number, (name, gains) in enumerate(series.items()):
        aside = 0.6 * ((number + 0.5) / len(series) - 0.5)
        axes.errorbar(
            [ticks.index(_tick(gain, by_size)) + aside for gain in gains],
            [gain.value for gain in gains],
            [
                [max(0.0, gain.value - gain.low) for gain in gains],
                [max(0.0, gain.high - gain.value) for gain in gains],
            ],
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle="-" if by_size else "none",
            capsize=2,
            linewidth=1,
            label=label_text(name),
        )
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlabel("training rows")
    axes.set_ylabel(f"gain over {label_text(table['baseline_title'])} in points, 95 % interval")
    quiet_frame(axes)
    legend_below(figure)
    return figure


def _tick(gain: Gain, by_size: bool) -> str:
    return f"{gain.size:,}" if by_size else f"{_wrapped(gain.title, 14)}\n{gain.size:,}"


def _wrapped(title: str, width: int) -> str:
    """Whole, for what stands in parentheses may say of which rows a score is."""
    return textwrap.fill(label_text(title, width=60), width)


def _gains(table: dict[str, Any], row: dict[str, Any]) -> list[Gain]:
    """The row's difference to the baseline in each task, at each size that it was trained on."""
    found: dict[tuple[str, str | None], Gain] = {}
    for column, cell in zip(table["columns"], row["cells"], strict=True):
        if cell is None or not cell.get("difference") or not cell["train_rows"]:
            continue
        difference = cell["difference"]
        if None not in (difference["value"], difference["low"]):
            task = column["of"] or column["task"]
            numbers = (difference[key] for key in ("value", "low", "high"))
            gain = Gain(task, column["title"], cell["train_rows"], *numbers)
            found.setdefault((task, column["cells"]), gain)
    return list(found.values())
