"""Figures of a finished run, drawn from its saved files only: never live objects, never torch.

All colours are from the Okabe-Ito palette or one-hue maps, so that they survive colour blindness
and grey printing.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multitask.config.run_directory import load_lines, load_report, stage_begins
from multitask.reporting.figures.embedding_space import draw_space
from multitask.reporting.figures.gradient_conflict import draw_conflict
from multitask.reporting.figures.style import (
    BLUE,
    DARK,
    GREEN,
    GREY,
    ORANGE,
    VERMILLION,
    label_text,
    legend_below,
    mark_stages,
    new_figure,
    numbers,
    quiet_frame,
    readable_on,
    save_figure,
    step_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPLIT_STYLES = {"dev": (BLUE, "o"), "holdout": (GREEN, "s")}

# Bins of the schedule: about as many as stay apart on a page.
SCHEDULE_BINS = 120
# How much of the distance between two rows of the schedule a full bar takes.
ROW_FILL = 0.8
# More classes than this leave no room for counts in the cells, or for names on the axes.
MAX_CLASSES_WITH_COUNTS = 12
MAX_CLASSES_WITH_NAMES = 30


def draw_all(run_dir: Path) -> list[Path]:
    """Write every figure of the run into ``run_dir/figures`` and return the paths.

    The curves first, then one figure of the dev predictions for each task, then the schedule and,
    where they were measured, the conflict of gradients and the space of the vectors.
    """
    report = load_report(run_dir)
    events = load_lines(run_dir / "metrics.jsonl")
    drawn = {"curves": _curves(report, events)}
    for task, result in report["tasks"].items():
        if result["label_type"] == "number":
            records = load_lines(run_dir / "predictions" / f"{task}.dev.jsonl")
            drawn[f"scatter_{task}"] = _scatter(task, result, records)
        elif "confusion" in result["dev"]:
            drawn[f"confusion_{task}"] = _confusion(task, result)
    drawn["schedule"] = _schedule(report, events)
    for name, draw in (("conflict", draw_conflict), ("space", draw_space)):
        figure = draw(events, stage_begins(events))
        if figure is not None:
            drawn[name] = figure

    folder = run_dir / "figures"
    folder.mkdir(exist_ok=True)
    paths = []
    for name, figure in drawn.items():
        paths.append(folder / f"{name}.png")
        save_figure(figure, paths[-1])
    return paths


def _smoothed(values: np.ndarray) -> np.ndarray:
    """Centred running mean over a twentieth of the points, 5 or more; NaN counts for nothing."""
    window = np.ones(min(len(values), max(5, len(values) // 20)))
    known = ~np.isnan(values)
    total = np.convolve(np.where(known, values, 0.0), window, mode="same")
    count = np.convolve(known, window, mode="same")
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)


def _curves(report: dict[str, Any], events: list[dict[str, Any]]) -> "Figure":
    """A panel for each task: its metric at each evaluation, and below it the training loss."""
    tasks = report["tasks"]
    columns = min(3, len(tasks))
    rows = math.ceil(len(tasks) / columns)
    figure = new_figure(max(5.5, 3.9 * columns), 4.6 * rows + 0.4)
    panels = figure.subplots(
        2 * rows, columns, sharex=True, squeeze=False, height_ratios=[3, 2] * rows
    )
    for place, (task, result) in enumerate(tasks.items()):
        upper, lower = panels[2 * (place // columns) :, place % columns][:2]
        _metric_curve(upper, task, result, events, report["selection_split"])
        _loss_curve(lower, task, events)
        for axes in (upper, lower):
            mark_stages(axes, stage_begins(events))
        lower.tick_params(labelbottom=True)
        step_axis(lower)
        if place % columns == 0:
            lower.set_ylabel("training loss")
    done = max(report["steps"]["done"], 1)
    panels[0, 0].set_xlim(-0.03 * done, 1.03 * done)
    for place in range(len(tasks), rows * columns):
        for axes in panels[2 * (place // columns) :, place % columns][:2]:
            axes.set_visible(False)
    legend_below(figure)
    return figure


def _metric_curve(
    axes: "Axes",
    task: str,
    result: dict[str, Any],
    events: list[dict[str, Any]],
    selection_split: str,
) -> None:
    """The task's own metric over steps, with its baselines and the step that was selected."""
    metric = result["metric"]
    for split, (colour, marker) in SPLIT_STYLES.items():
        scores = {
            event["step"]: event["tasks"][task][metric]
            for event in events
            if event["event"] == "eval" and event["split"] == split and task in event["tasks"]
        }
        if not scores:
            continue
        # what is only evaluated is always scored on dev, whatever selects the others
        name = "dev" if result.get("evaluate_only") else split
        axes.plot(list(scores), numbers(scores.values()), color=colour, marker=marker, label=name)
        if split == selection_split and scores.get(result["selected_step"]) is not None:
            axes.plot(
                result["selected_step"],
                scores[result["selected_step"]],
                marker="*",
                markersize=17,
                color=VERMILLION,
                markeredgecolor="white",
                linestyle="none",
                label="selected step",
                zorder=3,
            )
    for name, colour, style, label in (
        ("frozen", ORANGE, (0, (6, 2)), "frozen encoder"),
        ("trivial", GREY, (0, (2, 2)), "trivial (labels only)"),
    ):
        level = (result["baselines"][name] or {}).get(metric)
        if level is not None:
            axes.axhline(level, color=colour, linestyle=style, linewidth=1.8, label=label)
    axes.set_title(f"{label_text(task)}: {metric.replace('_', ' ')}", fontsize=11)
    quiet_frame(axes)


def _loss_curve(axes: "Axes", task: str, events: list[dict[str, Any]]) -> None:
    """The task's training loss at each of its steps, raw and smoothed."""
    turns = [event for event in events if event["event"] == "step" and event["task"] == task]
    if turns:
        steps = [event["step"] for event in turns]
        losses = numbers(event["loss"] for event in turns)
        axes.plot(steps, losses, color="0.85", linewidth=0.7)
        axes.plot(steps, _smoothed(losses), color=DARK, label="training loss, smoothed")
    quiet_frame(axes)


def _confusion(task: str, result: dict[str, Any]) -> "Figure":
    """Counts of gold (rows) against predicted (columns); the colour is the share of the row."""
    counts = np.array(result["dev"]["confusion"])
    size = len(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [label_text(str(name), width=18) for name in result["classes"] or range(size)]

    side = min(max(0.85 * size, 2.4), 9.0)
    figure = new_figure(side + 2.6, side + 1.5)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    bar = figure.colorbar(
        image, ax=axes, shrink=0.85, format=lambda share, _: f"{100 * share:.0f} %"
    )
    bar.set_label("share of the gold class")
    bar.outline.set_visible(False)
    axes.set(xlabel="predicted", ylabel="gold")
    what = "words of dev" if result["label_type"] == "tags" else "dev rows"
    axes.set_title(
        f"{label_text(task)}: {counts.trace():,} of {counts.sum():,} {what} right", fontsize=11
    )
    axes.spines[:].set_visible(False)
    if size <= MAX_CLASSES_WITH_NAMES:
        axes.set_xticks(range(size), names)
        axes.set_yticks(range(size), names)
        if max(map(len, names)) > 4:
            for label in axes.get_xticklabels():
                label.set(rotation=35, ha="right", rotation_mode="anchor")
    if size <= MAX_CLASSES_WITH_COUNTS:
        axes.set_xticks(np.arange(size - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(size - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=2)
        axes.tick_params(which="both", length=0)
        colours = image.to_rgba(shares)
        for (gold, predicted), count in np.ndenumerate(counts):
            share = shares[gold, predicted]
            axes.text(
                predicted,
                gold,
                f"{count:,}\n{100 * share:.0f} %",
                ha="center",
                va="center",
                color=readable_on(colours[gold, predicted, :3]),
                fontsize=9,
            )
    return figure


def _scatter(task: str, result: dict[str, Any], records: list[dict[str, Any]]) -> "Figure":
    """Predicted against gold numbers of the dev set, one dot a row."""
    known = [record for record in records if record["label"] is not None]
    gold = numbers(record["label"] for record in known)
    predicted = numbers(record["prediction"] for record in known)
    figure = new_figure(5.4, 5.0)
    axes = figure.subplots()
    axes.scatter(gold, predicted, s=14, color=BLUE, alpha=0.35, linewidths=0)
    low, high = result["label_range"] or (gold.min(initial=0), gold.max(initial=1))
    axes.plot(
        [low, high], [low, high], color=ORANGE, linestyle=(0, (6, 2)), label="predicted = gold"
    )
    axes.set(xlabel="gold", ylabel="predicted")
    pearson = result["dev"]["pearson"]
    score = "undefined" if pearson is None else f"{pearson:.3f}"
    axes.set_title(f"{label_text(task)}: Pearson {score} on {len(known):,} dev rows", fontsize=11)
    quiet_frame(axes)
    axes.legend(loc="upper left", frameon=False)
    return figure


def _schedule(report: dict[str, Any], events: list[dict[str, Any]]) -> "Figure":
    """A row for each task: the share of the turns it had along the steps, trained or skipped."""
    tasks = list(report["tasks"])
    turns = [event for event in events if event["event"] in ("step", "skip")]
    edges = _schedule_bins(max((turn["step"] for turn in turns), default=1), len(tasks))
    # joint steps have a turn of every task
    in_bin = np.histogram(sorted({turn["step"] for turn in turns}), edges)[0]

    def shares(**wanted: str) -> np.ndarray:
        steps = [turn["step"] for turn in turns if wanted.items() <= turn.items()]
        share: np.ndarray = np.histogram(steps, edges)[0] / np.maximum(in_bin, 1)
        return share

    full = max(shares(task=task).max() for task in tasks) or 1.0
    figure = new_figure(9.0, 0.7 * len(tasks) + 1.5)
    axes = figure.subplots()
    for row, task in enumerate(reversed(tasks)):
        trained = row + ROW_FILL * shares(task=task, event="step") / full
        both = row + ROW_FILL * shares(task=task) / full
        axes.axhline(row, color="0.8", linewidth=0.8)
        axes.stairs(trained, edges, baseline=row, fill=True, color=BLUE, label="trained")
        if (both > trained).any():
            axes.stairs(
                both, edges, baseline=trained, fill=True, color="0.82", label="turn skipped"
            )
        stops = [e["step"] for e in events if (e["event"], e.get("task")) == ("stop", task)]
        if stops:
            height = (row, row + ROW_FILL)
            axes.vlines(stops, *height, colors=VERMILLION, linewidth=2.5, label="stopped early")

    middles = np.arange(len(tasks)) + ROW_FILL / 2
    axes.set_yticks(middles, [label_text(task) for task in reversed(tasks)])
    totals = [report["tasks"][task]["turns"] for task in reversed(tasks)]
    right = axes.secondary_yaxis("right")
    texts = [f"{total['trained']:,} trained\n{total['skipped']:,} skipped" for total in totals]
    right.set_yticks(middles, texts, fontsize=8)
    right.spines["right"].set_visible(False)
    for side in (axes, right):
        side.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set(xlim=(0, edges[-1] + 0.5), ylim=(-0.1, len(tasks)))
    step_axis(axes)
    width = round(edges[1] - edges[0])
    title = "Which task each step trained"
    if width > 1:
        title = f"Share of the steps a task had (bins of {width}, full height = {100 * full:.0f} %)"
    axes.set_title(title, fontsize=11)
    legend_below(figure)
    return figure


def _schedule_bins(last: int, tasks: int) -> np.ndarray:
    """Edges of equal bins over the steps 1 to ``last``: single steps if that leaves few bins."""
    if last <= SCHEDULE_BINS:
        return np.arange(last + 1) + 0.5
    # A multiple of the number of tasks: round-robin then fills every bin alike.
    width = math.ceil(last / SCHEDULE_BINS / tasks) * tasks
    edges = width * np.arange(last // width + 1) + 0.5
    # The last bin takes what is left over: a short bin would show chance.
    edges[-1] = last + 0.5
    return edges
