"""The figures of a comparison, drawn from its numbers and the runs' logs."""

import math
from pathlib import Path

from multitask.config.run_directory import RunDirectory
from multitask.reporting.comparison.comparison_json import ComparedGroup, Comparison, Scores
from multitask.reporting.comparison.grid_axes import heatmaps, long_axes
from multitask.reporting.comparison.replaced_files import CURVES, GAPS
from multitask.reporting.comparison.score_tables import columns, several_seeds
from multitask.reporting.figures import style
from multitask.reporting.figures.grid_figures import draw_curve_bands, draw_heatmaps, loss_gaps

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
