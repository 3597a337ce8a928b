"""Draw the figures of a finished run from its saved files.

Colours are from the Okabe-Ito palette or one-hue maps; they stay readable for the colour-blind and
in grey print.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config.registry import imported, task_type
from multitask.config.run_directory import RunDirectory
from multitask.config.run_log import Event, stage_begins
from multitask.config.saved.report_model import RunReport, TaskReport
from multitask.reporting.figures import style
from multitask.reporting.figures.embedding_space import draw_space
from multitask.reporting.figures.figure_registry import figure_of
from multitask.reporting.figures.gradient_cosines import draw_conflict

# keyword arguments of matplotlib, as in `style.LOOKS`
SPLIT_STYLES: dict[str, dict[str, Any]] = {
    "dev": {"color": style.BLUE, "marker": "o"},
    "holdout": {"color": style.GREEN, "marker": "s"},
}
LEVELS = {"frozen encoder": "frozen encoder", "trivial": "trivial (labels only)"}

CURVES_SHOW = "Each task's metric at every evaluation and its training loss over the steps"
# the figures of what only some runs measure: name, function, what it shows
MEASURED = (
    (
        "conflict",
        draw_conflict,
        "Cosines between the tasks' gradients of the encoder over time and by layer",
    ),
    (
        "space",
        draw_space,
        "Alignment, uniformity and mean cosine of the vectors over the steps",
    ),
)
# bins of the schedule: about as many as a page can show
SCHEDULE_BINS = 120
# height of a full bar, as a share of the distance between two rows of the schedule
ROW_FILL = 0.8


def draw_all(run_dir: Path) -> dict[Path, str]:
    """Write every figure of the run into ``run_dir/figures``; return what each path shows.

    These are the curves, a figure of the dev predictions per task, the schedule and, if measured,
    the gradient conflict and the space of the sentence vectors.
    """
    run = RunDirectory(run_dir)
    report, events = run.load_report(), run.load_events()
    drawn = {"curves": (_curves(report, events), CURVES_SHOW)}
    for task, result in report.tasks.items():
        if reference := figure_of(result.label_type):
            figure = imported(reference)(task, result, run.predictions_of(task, "dev"))
            shows = task_type(result.label_type).figure_shows.format(task=task)
            drawn[f"{reference.partition(':')[2]}_{task}"] = (figure, shows)
    drawn["schedule"] = (_schedule(report, events), "Which task was trained when")
    for name, draw, shows in MEASURED:
        figure = draw(events, stage_begins(events))
        if figure is not None:
            drawn[name] = (figure, shows)

    run.make(run.figures)
    for name, (figure, _) in drawn.items():
        style.save_figure(figure, run.figure(name))
    return {run.figure(name): shows for name, (_, shows) in drawn.items()}


def _smoothed(values: np.ndarray) -> np.ndarray:
    """Return the centred running mean over 5 % of the points, but at least 5; NaN is ignored."""
    window = np.ones(min(len(values), max(5, len(values) // 20)))
    defined = ~np.isnan(values)
    total = np.convolve(np.where(defined, values, 0.0), window, mode="same")
    count = np.convolve(defined, window, mode="same")
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)


def _curves(report: RunReport, events: list[Event]) -> "style.Figure":
    """Draw two panels per task: its metric at each evaluation, and below it the training loss."""
    tasks = report.tasks
    columns = min(3, len(tasks))
    rows = math.ceil(len(tasks) / columns)
    figure = style.new_figure(max(5.5, 3.9 * columns), 4.6 * rows + 0.4)
    panels = figure.subplots(
        2 * rows, columns, sharex=True, squeeze=False, height_ratios=[3, 2] * rows
    )
    for place, (task, result) in enumerate(tasks.items()):
        upper, lower = panels[2 * (place // columns) :, place % columns][:2]
        _metric_curve(upper, task, result, events, selects=report.selection_split)
        _loss_curve(lower, task, events)
        style.mark_stages(upper, stage_begins(events))
        style.step_axis(lower, stage_begins(events))
        lower.tick_params(labelbottom=True)
        if place % columns == 0:
            lower.set_ylabel("training loss")
    steps = max(report.steps.done, 1)
    panels[0, 0].set_xlim(-0.03 * steps, 1.03 * steps)
    for place in range(len(tasks), rows * columns):
        for axes in panels[2 * (place // columns) :, place % columns][:2]:
            axes.set_visible(False)
    style.legend_below(figure)
    return figure


def _metric_curve(
    axes: "style.Axes",
    task: str,
    result: TaskReport,
    events: list[Event],
    *,
    selects: str,
) -> None:
    """Draw the task's metric over steps, with its baselines and the selected step."""
    metric = result.metric
    for split, look in SPLIT_STYLES.items():
        scores = {
            event["step"]: event["tasks"][task].get(metric)
            for event in events
            if event["event"] == "eval" and event["split"] == split and task in event["tasks"]
        }
        if not scores:
            continue
        # tasks that are only evaluated are always scored on dev
        name = "dev" if result.evaluate_only else split
        axes.plot(list(scores), style.numbers(scores.values()), **look, label=name)
        step = result.selected_step
        if split == selects and step is not None and scores.get(step) is not None:
            axes.plot(
                step,
                scores[step],
                **style.LOOKS["selected step"],
                label="selected step",
                zorder=3,
            )
    for name, label in LEVELS.items():
        level = result.baselines.scores(metric)[name]
        if level is not None:
            axes.axhline(level, **style.LOOKS[name.split()[0]], label=label)
    axes.set_title(style.metric_title(task, metric), fontsize=style.TITLE)
    style.quiet_frame(axes)


def _loss_curve(axes: "style.Axes", task: str, events: list[Event]) -> None:
    """Draw the task's training loss at each of its steps, raw and smoothed."""
    turns = [event for event in events if event["event"] == "step" and event["task"] == task]
    if turns:
        steps = [event["step"] for event in turns]
        losses = style.numbers(event["loss"] for event in turns)
        axes.plot(steps, losses, **style.LOOKS["raw loss"])
        axes.plot(steps, _smoothed(losses), color=style.DARK, label="training loss, smoothed")
    style.quiet_frame(axes)


def _schedule(report: RunReport, events: list[Event]) -> "style.Figure":
    """Draw a row per task: its share of the turns along the steps, trained or skipped."""
    tasks = list(report.tasks)
    turns = [event for event in events if event["event"] in ("step", "skip")]
    edges = _schedule_bins(max((turn["step"] for turn in turns), default=1), len(tasks))
    # joint steps have a turn of every task
    in_bin = np.histogram(sorted({turn["step"] for turn in turns}), edges)[0]

    def shares(**wanted: str) -> np.ndarray:
        steps = [turn["step"] for turn in turns if wanted.items() <= turn.items()]
        share: np.ndarray = np.histogram(steps, edges)[0] / np.maximum(in_bin, 1)
        return share

    full = max(shares(task=task).max() for task in tasks) or 1.0
    figure, axes = style.new_panel(9.0, 0.7 * len(tasks) + 1.5)
    for row, task in enumerate(reversed(tasks)):
        trained = row + ROW_FILL * shares(task=task, event="step") / full
        both = row + ROW_FILL * shares(task=task) / full
        axes.axhline(row, **style.LOOKS["row"])
        axes.stairs(trained, edges, baseline=row, **style.LOOKS["trained"], label="trained")
        if (both > trained).any():
            axes.stairs(
                both, edges, baseline=trained, **style.LOOKS["skipped"], label="turn skipped"
            )
        stops = [e["step"] for e in events if (e["event"], e.get("task")) == ("stop", task)]
        if stops:
            height = (row, row + ROW_FILL)
            axes.vlines(stops, *height, **style.LOOKS["stopped"], label="stopped early")

    middles = np.arange(len(tasks)) + ROW_FILL / 2
    axes.set_yticks(middles, style.labels(tasks)[::-1])
    totals = [report.tasks[task].turns for task in reversed(tasks)]
    right = axes.secondary_yaxis("right")
    texts = [f"{total.trained:,} trained\n{total.skipped:,} skipped" for total in totals]
    right.set_yticks(middles, texts, fontsize=style.SMALL)
    right.spines["right"].set_visible(False)
    for side in (axes, right):
        side.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set(xlim=(0, edges[-1] + 0.5), ylim=(-0.1, len(tasks)))
    style.step_axis(axes)
    width = round(edges[1] - edges[0])
    title = "Which task each step trained"
    if width > 1:
        title = f"Share of the steps a task had (bins of {width}, full height = {100 * full:.0f} %)"
    axes.set_title(title, fontsize=style.TITLE)
    style.legend_below(figure)
    return figure


def _schedule_bins(last: int, tasks: int) -> np.ndarray:
    """Return the edges of equal bins over the steps 1 to ``last``: single steps if they are few."""
    if last <= SCHEDULE_BINS:
        return np.arange(last + 1) + 0.5
    # with a multiple of the number of tasks, round-robin fills every bin alike
    width = math.ceil(last / SCHEDULE_BINS / tasks) * tasks
    edges = width * np.arange(last // width + 1) + 0.5
    # the last bin takes the rest: a short bin would show chance
    edges[-1] = last + 0.5
    return edges
