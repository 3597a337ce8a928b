"""The figure of a comparison: each task's scores by group, drawn from the saved numbers."""

import math
from typing import TYPE_CHECKING, Any

from multitask.drawing import (
    BLUE,
    DARK,
    GREY,
    VERMILLION,
    label_text,
    legend_below,
    new_figure,
    quiet_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_IN_A_ROW = 4


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
