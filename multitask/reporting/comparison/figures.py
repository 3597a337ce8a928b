"""The figures of a comparison, drawn from its numbers and the runs' logs."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitask.reporting.comparison.grid_axes import heatmaps, long_axes
from multitask.reporting.comparison.tables import columns
from multitask.reporting.figures.grid import (
    COLOURS,
    draw_curve_bands,
    draw_gap_bands,
    draw_heatmaps,
)
from multitask.reporting.figures.style import (
    BLUE,
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
CURVES, GAPS = "curves.png", "gaps.png"
# More curves than colours are hard to tell apart.
MAX_CURVES = len(COLOURS)


def draw_all(directory: Path, comparison: dict[str, Any]) -> list[Path]:
    """Write every figure: the scores of all groups, the grid's heat maps, the learning curves."""
    figure, curves, gaps = (directory / name for name in ("figure.png", CURVES, GAPS))
    save_figure(draw_comparison(comparison), figure)
    maps = heatmap_files(directory, comparison)
    for (title, file), task in zip(maps.items(), (*comparison["tasks"], None), strict=False):
        draw_heatmaps(file, heatmaps(comparison, task), title)
    drawn = curve_groups(comparison)
    if drawn:
        draw_curve_bands(curves, drawn)
        draw_gap_bands(gaps, drawn)
    return [figure, *maps.values(), *([curves, gaps] if drawn else [])]


def heatmap_files(directory: Path, comparison: dict[str, Any]) -> dict[str, Path]:
    """The heat maps' files by column title; none for a grid of fewer than two axes.

    The mean over tasks comes last, where there is one of several tasks.
    """
    if len(long_axes(comparison)) < 2:
        return {}
    names = [f"heatmap_{task}.png" for task in comparison["tasks"]]
    if len(names) > 1 and any(group["overall"] for group in comparison["groups"]):
        names.append("heatmap.png")
    return {
        title: directory / name for title, name in zip(columns(comparison), names, strict=False)
    }


def curve_groups(comparison: dict[str, Any]) -> dict[str, list[Path]]:
    """The runs of the groups whose learning curves are drawn.

    All groups with a log, or, of more than ``MAX_CURVES``, the baseline and those of the best
    scores: the best of a column before the others, which go by their mean over tasks.
    """
    runs = {group["name"]: [*map(Path, group["runs"])] for group in comparison["groups"]}
    logged = [
        group
        for group in comparison["groups"]
        if all((run / "metrics.jsonl").is_file() for run in runs[group["name"]])
    ]

    def rank(group: dict[str, Any]) -> tuple[bool, bool, float]:
        overall = group["overall"] or {"best": False, "mean": None}
        best = overall["best"] or any(entry["best"] for entry in group["tasks"].values())
        mean = -math.inf if overall["mean"] is None else overall["mean"]
        return group["name"] != comparison["baseline"], not best, -mean

    drawn = [group["name"] for group in sorted(logged, key=rank)[:MAX_CURVES]]
    return {name: own for name, own in runs.items() if name in drawn}


def draw_comparison(comparison: dict[str, Any]) -> "Figure":
    """A panel for each task and for their mean; a line of dots for each group, one dot a seed.

    The bar is the 95 % interval of the group's own mean; the baseline's mean is a dashed line.
    """
    groups = comparison["groups"]
    names = [group["name"] for group in groups]
    panels = {
        f"{label_text(task)}: {kind['metric'].replace('_', ' ')}": [
            group["tasks"].get(task) for group in groups
        ]
        for task, kind in comparison["tasks"].items()
    }
    if len(panels) > 1:
        panels["mean of the tasks"] = [group["overall"] for group in groups]
    columns = min(PANELS_IN_A_ROW, len(panels))
    lines = math.ceil(len(panels) / columns)
    figure = new_figure(2.6 + 2.9 * columns, lines * (1.3 + 0.3 * max(len(groups), 3)))
    axes = list(figure.subplots(lines, columns, squeeze=False, sharey=True).flat)
    at = names.index(comparison["baseline"])
    for place, (title, entries) in zip(axes, panels.items(), strict=False):
        _panel(place, entries, at)
        place.set_title(title, fontsize=11)
    for place in axes[len(panels) :]:
        place.set_visible(False)
    axes[0].set_yticks(range(len(names)), [label_text(name, width=44) for name in names])
    axes[0].set_ylim(len(names) - 0.5, -0.5)  # the first group on top
    for first in axes[::columns]:
        first.get_yticklabels()[at].set_fontweight("bold")
    legend_below(figure)
    return figure


def _panel(axes: "Axes", entries: list[dict[str, Any] | None], baseline: int) -> None:
    base = entries[baseline]
    if base and base["mean"] is not None:
        axes.axvline(
            base["mean"],
            color=GREY,
            linestyle=(0, (5, 3)),
            linewidth=1.2,
            zorder=1,
            label="mean of the baseline (bold name)",
        )
    for line, entry in enumerate(entries):
        if entry is None:
            continue
        seeds = [value for value in entry["values"] if value is not None]
        axes.plot(
            seeds,
            [line] * len(seeds),
            linestyle="none",
            marker="o",
            markersize=5,
            color=BLUE,
            alpha=0.45,
            markeredgewidth=0,
            zorder=3,
            label="one seed",
        )
        if entry["mean"] is None:
            continue
        if entry["low"] is not None:
            axes.hlines(
                line,
                entry["low"],
                entry["high"],
                color=DARK,
                linewidth=1.4,
                zorder=2,
                label="95 % interval of the group's mean",
            )
        colour = VERMILLION if entry["best"] else DARK
        label = "best mean" if entry["best"] else "mean"
        axes.plot(
            entry["mean"],
            line,
            marker="D",
            markersize=5,
            color=colour,
            linestyle="none",
            markeredgecolor="white",
            zorder=4,
            label=label,
        )
    quiet_frame(axes)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=5)
