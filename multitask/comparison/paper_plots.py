"""The figures of a paper's table: scores with their spread, gain by training size, a curve."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitask.drawing import (
    DARK,
    GREY,
    VERMILLION,
    label_text,
    legend_below,
    new_figure,
    quiet_frame,
    save_figure,
)
from multitask.plots_grid import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_IN_A_ROW = 4
MARKERS = "osD^vP*X"


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

    Where the table's rows are points of a curve (``curve``), their means are joined.
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
    cells = [row["cells"][place] for row in table["rows"]]
    for x, cell in enumerate(cells):
        values = [value for value in (cell or {}).get("values", []) if value is not None]
        axes.plot([x] * len(values), values, "o", color=GREY, markersize=3, label="one seed")
    ours = [(x, c) for x, c in enumerate(cells) if c and c.get("mean") is not None]
    axes.errorbar(
        [x for x, _ in ours],
        [cell["mean"] for _, cell in ours],
        [cell["sd"] or 0.0 for _, cell in ours],
        color=DARK,
        linestyle=joined,
        marker="D",
        markersize=5,
        capsize=3,
        linewidth=1.2,
        label="ours: mean ± sd",
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
    axes.set_title(label_text(table["columns"][place]["title"]), fontsize=11)
    quiet_frame(axes)


def draw_gains(table: dict[str, Any]) -> "Figure":
    """Each row's gain over the baseline by the rows that it was trained on, with its interval."""
    figure = new_figure(7.5, 4.5)
    axes = figure.subplots()
    rows = [row for row in table["rows"] if _gains(table, row)]
    for number, row in enumerate(rows):
        gains = _gains(table, row)
        sizes = [size * 1.04 ** (number - len(rows) / 2) for size, _, _ in gains]  # side by side
        values = [found["value"] for _, found, _ in gains]
        low = [found["value"] - found["low"] for _, found, _ in gains]
        high = [found["high"] - found["value"] for _, found, _ in gains]
        axes.errorbar(
            sizes,
            values,
            [[max(0.0, v) for v in low], [max(0.0, v) for v in high]],
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle="none",
            capsize=2,
            linewidth=1,
            label=label_text(row["title"]),
        )
    named: dict[int, list[str]] = {}
    for row in rows:
        for size, _, title in _gains(table, row):
            named.setdefault(size, [])
            named[size] += [] if title in named[size] else [title]
    for size, titles in named.items():
        axes.annotate(
            label_text(", ".join(titles), width=40),
            (size, 1),
            xycoords=axes.get_xaxis_transform(),
            rotation=90,
            va="top",
            ha="right",
            fontsize=7,
            color=DARK,
        )
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("training rows")
    axes.set_ylabel(f"gain over {label_text(table['baseline_title'])} in points, 95 % interval")
    quiet_frame(axes)
    legend_below(figure)
    return figure


def _gains(table: dict[str, Any], row: dict[str, Any]) -> list[tuple[int, dict[str, Any], str]]:
    """Training rows, difference to the baseline and column of each score that has all three."""
    found = []
    for column, cell in zip(table["columns"], row["cells"], strict=True):
        if cell is None or not cell.get("difference") or not cell["train_rows"]:
            continue
        difference = cell["difference"]
        if None not in (difference["value"], difference["low"]):
            found.append((cell["train_rows"], difference, column["title"]))
    return found
