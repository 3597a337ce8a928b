# Long: all curves over steps and layers, so that they look alike.
"""Curves by step or by layer, from saved files: one run, groups of runs, encoders.

Colours are from the Okabe-Ito palette; they stay readable for the colour-blind and in grey print.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config.registry import imported, task_type
from multitask.reporting.figures import style
from multitask.reporting.figures.figure_registry import figure_of
from multitask.reporting.sts_report import LayerScores, SuiteLayers
from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import Event, load_lines, stage_begins
from multitask.store.saved import RunReport, TaskReport
from multitask.utils.errors import UserError

# keyword arguments of matplotlib, as in `style.LOOKS`
SPLIT_STYLES: dict[str, dict[str, Any]] = {
    "dev": {"color": style.BLUE, "marker": "o"},
    "holdout": {"color": style.GREEN, "marker": "s"},
}
LEVELS = {"frozen encoder": "frozen encoder", "trivial": "trivial (labels only)"}

CURVES_SHOW = "Each task's metric at every evaluation and its training loss over the steps"
# bins of the schedule: about as many as a page can show
SCHEDULE_BINS = 120
# height of a full bar, as a share of the distance between two rows of the schedule
ROW_FILL = 0.8


def draw_all(run: RunDirectory, report: RunReport, events: list[Event]) -> dict[Path, str]:
    """Write every figure of the run into its ``figures``; return what each path shows.

    These are the curves, a figure of the dev predictions per task, the schedule and, if measured,
    the gradient conflict and the space of the sentence vectors.
    """
    drawn = {"curves": (_curves(report, events), CURVES_SHOW)}
    for task, result in report.tasks.items():
        if reference := figure_of(result.label_type):
            figure = imported(reference)(task, result, run.predictions_of(task, "dev"))
            shows = task_type(result.label_type).figure_shows.format(task=task)
            drawn[f"{reference.partition(':')[2]}_{task}"] = (figure, shows)
    drawn["schedule"] = (_schedule(report, events), "Which task was trained when")
    stages = stage_begins(events)
    if (figure := draw_conflict(events, stages)) is not None:
        shows = "Cosines between the tasks' gradients of the encoder over time and by layer"
        drawn["conflict"] = (figure, shows)
    if (figure := draw_space(events, stages)) is not None:
        shows = "Alignment, uniformity and mean cosine of the vectors over the steps"
        drawn["space"] = (figure, shows)

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


MAX_COLUMNS = 3

# a run's scores by step, for each task and metric
Curves = dict[tuple[str, str], dict[int, float]]


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


# colour, marker and name of each pooling, in the order of the legend
STYLES = {
    "cls": (style.BLUE, "o", "[CLS]"),
    "mean": (style.ORANGE, "s", "mean of tokens"),
    "max": (style.GREEN, "^", "maximum over tokens"),
    "first-last mean": (style.VERMILLION, "D", "mean of first and last layer"),
}
BY_LAYER = ("cls", "mean", "max")  # poolings of one layer
AVERAGE = "first-last mean"  # one number per encoder, drawn as a horizontal line
COLUMNS = 4
NAME = 70  # characters of an encoder's name
TITLE = "Agreement of the sentence vectors with human scores"

Encoders = Mapping[str, Mapping[str, SuiteLayers]]


def draw_layers(encoders: Encoders) -> "style.Figure":
    """Draw Spearman by layer, where layer 0 is the embeddings.

    One encoder has a panel per suite with a curve per pooling. Several encoders have a row of
    panels per suite, one panel per pooling, with a curve per encoder; the suites are those of the
    first encoder.
    """
    if len(encoders) == 1:
        ((name, suites),) = encoders.items()
        figure = _one_encoder(suites)
        title = f"{TITLE}, by layer\n{style.label(name, width=NAME)}"
    else:
        figure = _several_encoders(encoders)
        title = f"{TITLE}, by layer"
    figure.supylabel("Spearman x 100, all pairs", fontsize=style.LABEL)
    figure.suptitle(title, fontsize=style.HEADING)
    style.legend_below(figure)
    style.make_room(figure)
    return figure


def _one_encoder(suites: Mapping[str, SuiteLayers]) -> "style.Figure":
    figure, places = style.panels(
        len(suites),
        COLUMNS,
        lambda columns, rows: (1.0 + 2.6 * columns, 1.2 + 2.3 * rows),
        sharex=True,
        sharey=True,
    )
    for axes, (suite, entry) in zip(places, suites.items(), strict=False):
        for name, (colour, marker, title) in STYLES.items():
            look = {"color": colour, "marker": marker}
            _draw(axes, entry["all"][name], title, look)
        _finish(axes, suite)
    return figure


def _several_encoders(encoders: Encoders) -> "style.Figure":
    suites = next(iter(encoders.values()))
    figure, places = style.panels(
        len(BY_LAYER) * len(suites),
        len(BY_LAYER),
        lambda columns, rows: (1.0 + 2.9 * columns, 1.2 + 2.3 * rows + 0.2 * len(encoders)),
        sharex=True,
        sharey=True,
    )
    panels = iter(places)
    for suite in suites:
        for pooling in BY_LAYER:
            axes = next(panels)
            for number, (label, of) in enumerate(
                zip(style.labels(encoders, width=NAME), encoders.values(), strict=True)
            ):
                if suite not in of:
                    continue
                scores, look = of[suite]["all"], style.group_style(number)
                _draw(axes, scores[pooling], label, look)
                if pooling == "mean":
                    _draw(axes, scores[AVERAGE], "", look)
            _finish(axes, f"{suite}, {STYLES[pooling][2]}")
    axes.plot([], [], **style.LOOKS["average"], color=style.DARK, label=STYLES[AVERAGE][2])
    return figure


def _draw(axes: "style.Axes", values: Any, label: str, look: Mapping[str, Any]) -> None:
    """Draw a curve over the layers; an average over layers is a horizontal line."""
    if isinstance(values, list):
        axes.plot(100 * style.numbers(values), **style.LOOKS["curve"], **look, label=label)
    elif values is not None:
        line = style.LOOKS["average"] | {"color": look["color"]}
        axes.axhline(100 * values, **line, label=label)


def _finish(axes: "style.Axes", title: str) -> None:
    axes.set_title(title, fontsize=style.HEADING)
    axes.locator_params(axis="x", integer=True)
    axes.tick_params(labelbottom=True)
    axes.set_xlabel("layer (0: embeddings)", fontsize=style.SMALL)
    style.quiet_frame(axes)


def draw_domains(suites: Mapping[str, SuiteLayers], source: str) -> "style.Figure":
    """Draw a row per subset: Spearman of the last layer under each pooling.

    The poolings of a row are below one another, so that equal scores do not hide one.
    """
    rows = [
        (f"{suite} {subset}" if subset not in ("test", suite) else suite, values)
        for suite, entry in suites.items()
        for subset, values in entry["subsets"].items()
    ]
    figure, axes = style.new_panel(7.0, 1.6 + 0.3 * len(rows))
    for number, (name, (colour, marker, title)) in enumerate(STYLES.items()):
        last = style.numbers(_last(values, name) for _, values in rows)
        places = [row + 0.8 * ((number + 0.5) / len(STYLES) - 0.5) for row in range(len(rows))]
        look = {"color": colour, "marker": marker, **style.LOOKS["domain"]}
        axes.scatter(100 * last, places, **look, label=title)
    axes.set_yticks(range(len(rows)), style.labels([label for label, _ in rows], width=32))
    axes.tick_params(axis="y", labelsize=style.SMALL)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    style.separate_rows(axes, len(rows))
    axes.set_xlabel("Spearman x 100, pooling of the last layer or of the first and the last")
    title = f"{TITLE}, by subset\n{style.label(source, width=NAME)}"
    figure.suptitle(title, fontsize=style.HEADING)
    style.legend_below(figure)
    style.make_room(figure)
    return figure


def _last(values: LayerScores, pooling: str) -> float | None:
    score = values[pooling]
    return score[-1] if isinstance(score, list) else score


MAX_PAIRS_WITH_NUMBERS = 12


def draw_conflict(events: list[Event], stages: list[tuple[int, str]]) -> "style.Figure | None":
    """Draw each pair's cosine over the encoder (left) and its mean over time per part (right).

    None if the run did not measure it (see `training.conflict_steps`) or never had two tasks.
    """
    measured = [event for event in events if event["event"] == "conflict" and event["cosines"]]
    if not measured:
        return None
    pairs = list(dict.fromkeys(pair for event in measured for pair in event["cosines"]["all"]))
    every = {part for event in measured for part in event["cosines"]}  # a stage may freeze some
    parts = sorted(every - {"all"}, key=lambda part: int(part.partition("_")[2] or 0))
    figure = style.new_figure(11.0, max(3.6, 0.34 * len(parts) + 1.6))
    over_time, by_layer = figure.subplots(1, 2, width_ratios=[3, 2])
    steps = [event["step"] for event in measured]
    names = style.labels(pairs)
    for place, (pair, name) in enumerate(zip(pairs, names, strict=True)):
        values = cosines(measured, "all", pair)
        over_time.plot(steps, values, label=name, **style.line_style(place))
    over_time.axhline(0, **style.LOOKS["zero"])
    over_time.set_ylabel("cosine of the encoder's gradients")
    over_time.set_title("below 0 the tasks pull apart", fontsize=style.HEADING)
    style.quiet_frame(over_time)
    style.step_axis(over_time, stages)
    means = np.array([[_mean(cosines(measured, p, pair)) for pair in pairs] for p in parts])
    widest = max(0.1, float(np.nanmax(np.abs(means))))
    image = by_layer.imshow(means, cmap=style.TWO_HUES, vmin=-widest, vmax=widest, aspect="auto")
    by_layer.set_yticks(range(len(parts)), [part.replace("_", " ") for part in parts])
    by_layer.set_xticks(range(len(pairs)), names, rotation=30, ha="right")
    by_layer.set_title("mean over the training, by layer", fontsize=style.HEADING)
    if len(pairs) <= MAX_PAIRS_WITH_NUMBERS:
        texts = [[f"{value:z.3f}" for value in row] for row in means]
        style.write_in_cells(by_layer, texts, image.to_rgba(means), style.SMALL)
    figure.colorbar(image, ax=by_layer)
    style.legend_below(figure)
    return figure


def _mean(values: np.ndarray) -> float:
    """Average the numbers; NaN if there is none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else np.nan


def cosines(measured: list[Event], part: str, pair: str) -> np.ndarray:
    """Return a pair's cosine per measurement; NaN if it was not measured (a task had stopped)."""
    return style.numbers(event["cosines"].get(part, {}).get(pair) for event in measured)


PANELS = {
    "alignment": "alignment of similar pairs",
    "uniformity": "uniformity of all sentences",
    "mean_cosine": "mean cosine of any two",
}


def draw_space(events: list[Event], stages: list[tuple[int, str]]) -> "style.Figure | None":
    """Draw a panel per measure and a line per task that is only evaluated; None without one.

    Lines start before the first step. Lower is better in all panels (Wang & Isola 2020).
    """
    evaluations = [event for event in events if event["event"] in ("space", "eval")]
    tasks = [
        task
        for task, scores in (evaluations[0]["tasks"] if evaluations else {}).items()
        if "uniformity" in scores
    ]
    if not tasks:
        return None
    figure = style.new_figure(11.0, 3.4)
    steps = [event["step"] for event in evaluations]
    for axes, (measure, title) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
        for place, (task, name) in enumerate(zip(tasks, style.labels(tasks), strict=True)):
            values = style.numbers(
                event["tasks"].get(task, {}).get(measure) for event in evaluations
            )
            axes.plot(steps, values, label=name, **style.line_style(place))
        axes.set_title(title, fontsize=style.HEADING)
        style.quiet_frame(axes)
        style.step_axis(axes, stages)
    style.legend_below(figure)
    return figure


def scatter(task: str, result: TaskReport, predictions: Path) -> "style.Figure":
    """Draw one dot per dev row; the title has the first metric of the task type."""
    labelled = [record for record in load_lines(predictions) if record["label"] is not None]
    gold = style.numbers(record["label"] for record in labelled)
    predicted = style.numbers(record["prediction"] for record in labelled)
    figure, axes = style.new_panel(5.4, 5.0)
    axes.scatter(gold, predicted, **style.LOOKS["dots"])
    low, high = result.label_range or (gold.min(initial=0), gold.max(initial=1))
    axes.plot([low, high], [low, high], **style.LOOKS["diagonal"], label="predicted = gold")
    axes.set(xlabel="gold", ylabel="predicted")
    metric = task_type(result.label_type).selects[0]
    value = result.dev[metric]
    score = f"{metric.capitalize()} {'undefined' if value is None else f'{value:.3f}'}"
    axes.set_title(
        f"{style.label(task)}: {score} on {len(labelled):,} dev rows",
        fontsize=style.TITLE,
    )
    style.quiet_frame(axes)
    axes.legend(loc="upper left", frameon=False)
    return figure
