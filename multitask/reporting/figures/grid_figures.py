"""Draw heat maps of a grid's scores, and learning curves over seeds, from saved files.

Colours are from the Okabe-Ito palette or cividis; both stay readable for the colour-blind.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config.run_directory import RunDirectory
from multitask.config.run_log import Event, stage_begins
from multitask.config.saved.report_model import RunReport
from multitask.reporting.figures import style
from multitask.utils.errors import UserError

MAX_COLUMNS = 3
# With more cells in a row, a figure would be too wide to read.
MAX_CELLS_ACROSS = 12

# a run's scores by step, for each task and metric
Curves = dict[tuple[str, str], dict[int, float]]


@dataclass(frozen=True)
class Heatmap:
    """Scores of one map.

    Attributes:
        values: scores [rows, columns]; NaN for a combination without a score.
        row_labels, column_labels: the labels of the cells.
        rows, columns: the config keys of the two axes.
    """

    values: np.ndarray
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    rows: str = ""
    columns: str = ""


def draw_heatmaps(maps: Sequence[Heatmap], measure: str = "") -> "style.Figure":
    """Draw heat maps next to each other, with the same colour scale.

    Each cell shows its number; without a score it is grey and has a dash. ``measure`` says what the
    numbers are.
    """
    import matplotlib
    from matplotlib.colors import Normalize

    height, width = (max(each.values.shape[axis] for each in maps) for axis in (0, 1))
    columns = min(MAX_COLUMNS, len(maps), max(1, MAX_CELLS_ACROSS // width))
    figure, places = style.panels(
        len(maps),
        columns,
        lambda across, down: (
            max(4.2, 1.2 + (1.6 + 0.85 * width) * across),
            0.6 + (1.2 + 0.5 * height) * down,
        ),
    )
    finite = np.concatenate([each.values[np.isfinite(each.values)] for each in maps])
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    colours = matplotlib.colormaps[style.SCORES].with_extremes(bad=style.NO_SCORE)
    scale = matplotlib.cm.ScalarMappable(Normalize(low, high), colours)
    for axes, each in zip(places, maps, strict=False):
        _heatmap(axes, each, scale)
    if low < high:
        style.colour_bar(figure, scale, style.label(measure, width=40), ax=places, shrink=0.85)
    return figure


def _heatmap(axes: "style.Axes", heatmap: Heatmap, scale: Any) -> None:
    cells = np.ma.masked_invalid(heatmap.values)
    rows, columns = cells.shape
    shades = scale.to_rgba(cells)
    axes.imshow(shades, aspect="auto")
    axes.set(xlabel=_key_text(heatmap.columns), ylabel=_key_text(heatmap.rows))
    across = style.labels(heatmap.column_labels)
    axes.set_xticks(range(columns), across)
    axes.set_yticks(range(rows), style.labels(heatmap.row_labels))
    if max(map(len, across), default=0) > 7:
        style.tilt(axes, 35)
    style.separate_cells(axes, rows, columns)
    axes.spines[:].set_visible(False)
    texts = [
        [f"{value:.3f}" if math.isfinite(value) else "-" for value in row] for row in heatmap.values
    ]
    style.write_in_cells(axes, texts, shades, style.LABEL)


def _key_text(key: str) -> str:
    """Shorten a config key for an axis; the end of a long one says more."""
    return style.label(key if len(key) <= 28 else f"…{key[-27:]}", width=28)


@dataclass(frozen=True)
class _Log:
    """The learning curves of one run.

    Attributes:
        split: the selection split.
        curves: each task's metric by step.
        stages: the step before each stage, and the stage's name.
    """

    split: str
    curves: Curves
    stages: list[tuple[int, str]]


# (report, log, evaluations in the log) -> curves
CurvesOf = Callable[[RunReport, list[Event], list[Event]], Curves]


def _load_curves(run_dir: Path, curves_of: CurvesOf) -> _Log:
    run = RunDirectory(run_dir)
    report = run.load_report()
    split = report.selection_split
    try:
        events = run.load_events()
        evaluations = [
            event for event in events if event["event"] == "eval" and event["split"] == split
        ]
        return _Log(split, curves_of(report, events, evaluations), stage_begins(events))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{run.metrics}: missing or damaged ({error}): learning curves are drawn from it; "
            "restore it, or leave the run out"
        ) from error


def score_curves(report: RunReport, events: list[Event], evaluations: list[Event]) -> Curves:
    """Return each task's metric at each evaluation."""
    curves: Curves = {}
    for task, result in report.tasks.items():
        # a stage may evaluate only its own tasks
        scored = [event for event in evaluations if task in event["tasks"]]
        scores = style.numbers(event["tasks"][task][result.metric] for event in scored)
        # tasks that are only evaluated are always scored on dev
        apart = result.evaluate_only and report.selection_split != "dev"
        curves[task, result.metric + " on dev" * bool(apart)] = dict(
            zip([event["step"] for event in scored], scores, strict=True)
        )
    return curves


def loss_gaps(report: RunReport, events: list[Event], evaluations: list[Event]) -> Curves:
    """Return how far each task's loss on the selection split is above its training loss.

    The training loss, with dropout, is the mean over the steps since the previous evaluation.
    """
    curves: Curves = {}
    for task in report.tasks:
        of_task = [e for e in events if e["event"] == "step" and e["task"] == task]
        steps = [e for e in of_task if e["loss"] is not None]
        before = 0
        for event in evaluations:
            loss = event["tasks"].get(task, {}).get("loss")
            trained = [e["loss"] for e in steps if before < e["step"] <= event["step"]]
            before = event["step"]
            if loss is not None and trained:
                curves.setdefault((task, "loss gap"), {})[before] = loss - float(np.mean(trained))
    return curves


def draw_curve_bands(
    groups: dict[str, list[Path]], curves_of: CurvesOf = score_curves, measure: str = "mean"
) -> "style.Figure":
    """Draw the learning curves of groups of runs; the runs of a group differ in their seed.

    A panel per task shows the group's mean at each evaluation of the selection split, and a band
    from the lowest to the highest seed. Steps that only some runs of a group reached are left out,
    as their mean would be over other seeds. Undefined scores are gaps. Vertical lines mark where
    stages begin, if they begin at the same steps in all runs.

    Args:
        groups: the runs of each group.
        curves_of: ``score_curves`` or ``loss_gaps``.
        measure: what the curves are, for the vertical axis.

    Raises:
        UserError: a run without report.json or without its log.
    """
    loaded = {name: [_load_curves(run, curves_of) for run in runs] for name, runs in groups.items()}
    every = [log for logs in loaded.values() for log in logs]
    keys = dict.fromkeys(key for log in every for key in log.curves)
    stages = every[0].stages if all(log.stages == every[0].stages for log in every) else []
    legend = 0.1 * len(groups)
    figure, places = style.panels(
        len(keys),
        MAX_COLUMNS,
        lambda columns, rows: (max(5.5, 3.9 * columns), 3.3 * rows + 0.4 + legend),
    )
    names = zip(style.labels(loaded, width=40), loaded.values(), strict=True)
    labels = [f"{name} ({_seeds(len(logs))})" for name, logs in names]
    for axes, key in zip(places, keys, strict=False):
        for place, (logs, label) in enumerate(zip(loaded.values(), labels, strict=True)):
            curves = [log.curves[key] for log in logs if key in log.curves]
            if curves:
                _band(axes, curves, label, place)
        axes.set_title(style.metric_title(*key), fontsize=style.TITLE)
        style.step_axis(axes, stages)
    splits = sorted({log.split for log in every})
    places[0].set_ylabel(f"{measure} on {' or '.join(splits)}")
    if len(every) > len(loaded):
        places[0].fill_between([], [], **style.LOOKS["key"], label="lowest to highest seed")
    style.legend_below(figure, labels)
    return figure


def _band(axes: "style.Axes", curves: list[dict[int, float]], label: str, place: int) -> None:
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    scores = np.array([[curve[step] for step in steps] for curve in curves])  # [seeds, steps]
    look = style.group_style(place)
    axes.plot(steps, scores.mean(axis=0), label=label, **style.LOOKS["curve"], **look)
    if len(curves) > 1:
        low, high = scores.min(axis=0), scores.max(axis=0)
        axes.fill_between(steps, low, high, color=look["color"], **style.LOOKS["seeds"])


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"
