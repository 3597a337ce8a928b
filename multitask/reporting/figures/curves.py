# Long: all curves over steps and layers, so that they look alike.
"""Curves by step or by layer, from saved files: one run, groups of runs, encoders."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config.registry import imported, task_type
from multitask.reporting.figures import style
from multitask.reporting.figures.figure_registry import figure_of
from multitask.reporting.figures.maps import Records
from multitask.reporting.sts_report import FIRST_LAST, POOLINGS, SuiteLayers
from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import Event, stage_begins
from multitask.store.saved import RunReport, TaskReport
from multitask.utils.errors import reading

IN_A_ROW = 3
# bins of the schedule: about as many as a page can show
SCHEDULE_BINS = 120
# height of a full bar, as a share of the distance between two rows of the schedule
ROW_FILL = 0.8


def draw_all(
    run: RunDirectory, report: RunReport, events: list[Event], predictions: Mapping[str, Records]
) -> dict[Path, str]:
    """Write every figure of the run into its ``figures``; return what each path shows.

    These are the curves, a figure of the dev ``predictions`` per task, the schedule and, if
    measured, the gradient conflict and the space of the sentence vectors.
    """
    drawn: dict[str, tuple[style.Figure | None, str]] = {}
    shows = "Each task's metric at every evaluation and its training loss over the steps"
    drawn["curves"] = draw_curves(report, events), shows
    for task, result in report.tasks.items():
        if reference := figure_of(result.label_type):
            with reading(run.predictions_of(task, "dev")):
                figure = imported(reference)(task, result, predictions[task])
            shows = task_type(result.label_type).figure_shows.format(task=task)
            drawn[f"{reference.partition(':')[2]}_{task}"] = figure, shows
    drawn["schedule"] = draw_schedule(report, events), "Which task was trained when"
    stages = stage_begins(events)
    shows = "Cosines between the tasks' gradients of the encoder over time and by layer"
    drawn["conflict"] = draw_conflict(events, stages), shows
    shows = "Alignment, uniformity and mean cosine of the vectors over the steps"
    drawn["space"] = draw_space(events, stages), shows

    run.make(run.figures)
    style.save_figures({run.figure(name): made for name, (made, _) in drawn.items() if made})
    return {run.figure(name): shows for name, (made, shows) in drawn.items() if made}


def smoothed(values: np.ndarray) -> np.ndarray:
    """Return the centred running mean over 5 % of the points, but at least 5; NaN is ignored."""
    window = np.ones(min(len(values), max(5, len(values) // 20)))
    defined = ~np.isnan(values)
    total = np.convolve(np.where(defined, values, 0.0), window, mode="same")
    count = np.convolve(defined, window, mode="same")
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)


def draw_curves(report: RunReport, events: list[Event]) -> "style.Figure":
    """Draw two panels per task: its metric at each evaluation, and below it the training loss."""
    columns = min(IN_A_ROW, len(report.tasks))
    rows = math.ceil(len(report.tasks) / columns)
    figure = style.new_figure(max(style.LEAST_WIDTH, 3.9 * columns), 4.6 * rows)
    grid = figure.subplots(
        2 * rows, columns, sharex=True, squeeze=False, height_ratios=[3, 2] * rows
    )
    pairs = [pair for row in range(rows) for pair in grid[2 * row : 2 * row + 2].T]
    stages, steps = stage_begins(events), max(report.steps.done, 1)
    for (upper, lower), (task, result) in zip(pairs, report.tasks.items(), strict=False):
        _metric_curve(upper, task, result, events, selects=report.selection_split)
        turns = [event for event in events if event["event"] == "step" and event["task"] == task]
        if turns:
            done = [event["step"] for event in turns]
            losses = style.numbers(event["loss"] for event in turns)
            lower.plot(done, losses, color="0.85", linewidth=0.7)
            lower.plot(done, smoothed(losses), color=style.DARK, label="training loss, smoothed")
        style.quiet_frame(lower)
        style.mark_stages(upper, stages)
        style.step_axis(lower, stages)
        lower.tick_params(labelbottom=True)
    for lower in grid[1::2, 0]:
        lower.set_ylabel("training loss")
    grid[0, 0].set_xlim(-0.03 * steps, 1.03 * steps)
    for pair in pairs[len(report.tasks) :]:
        for axes in pair:
            axes.remove()
    style.legend_below(figure)
    return figure


def _metric_curve(
    axes: "style.Axes", task: str, result: TaskReport, events: list[Event], *, selects: str
) -> None:
    """Draw the task's metric over steps, with its baselines and the selected step."""
    metric, step = result.metric, result.selected_step
    splits = {"dev": (style.BLUE, "o"), "holdout": (style.GREEN, "s")}
    for split, (colour, marker) in splits.items():
        scores = {
            event["step"]: event["tasks"][task].get(metric)
            for event in events
            if event["event"] == "eval" and event["split"] == split and task in event["tasks"]
        }
        if not scores:
            continue
        # tasks that are only evaluated are always scored on dev
        name = "dev" if result.evaluate_only else split
        values = style.numbers(scores.values())
        axes.plot(list(scores), values, color=colour, marker=marker, label=name)
        if split == selects and step is not None and scores.get(step) is not None:
            axes.plot(step, scores[step], **style.LOOKS["selected"], label="selected step")
    looks = ((style.ORANGE, 6, "frozen encoder"), (style.GREY, 2, "trivial (labels only)"))
    levels = result.baselines.scores(metric).values()
    for level, (colour, dash, name) in zip(levels, looks, strict=True):
        if level is not None:
            line: Any = (0, (dash, 2))
            axes.axhline(level, color=colour, linestyle=line, linewidth=1.8, label=name)
    axes.set_title(style.metric_title(task, metric), fontsize=style.TITLE)
    style.quiet_frame(axes)


def draw_schedule(report: RunReport, events: list[Event]) -> "style.Figure":
    """Draw a row per task: its share of the turns along the steps, trained or skipped."""
    tasks = list(report.tasks)
    turns = [event for event in events if event["event"] in ("step", "skip")]
    edges = schedule_bins(max((turn["step"] for turn in turns), default=1), len(tasks))
    # joint steps have a turn of every task
    in_bin = np.histogram(sorted({turn["step"] for turn in turns}), edges)[0]

    def shares(**wanted: str) -> np.ndarray:
        steps = [turn["step"] for turn in turns if wanted.items() <= turn.items()]
        share: np.ndarray = np.histogram(steps, edges)[0] / np.maximum(in_bin, 1)
        return share

    full = max(shares(task=task).max() for task in tasks) or 1.0
    width = round(edges[1] - edges[0])
    title = "Which task each step trained"
    if width > 1:
        title = f"Share of the steps a task had (bins of {width}, full height = {100 * full:.0f} %)"
    figure, (axes,) = style.panels([title], (9.0, 0.7 * len(tasks) + 1.5))
    for row, task in enumerate(reversed(tasks)):
        trained = row + ROW_FILL * shares(task=task, event="step") / full
        both = row + ROW_FILL * shares(task=task) / full
        axes.axhline(row, color=style.PALE, linewidth=0.8)
        axes.stairs(trained, edges, baseline=row, fill=True, color=style.BLUE, label="trained")
        if (both > trained).any():
            look: style.Look = {"fill": True, "color": "0.82"}
            axes.stairs(both, edges, baseline=trained, **look, label="turn skipped")
        stops = [e["step"] for e in events if (e["event"], e.get("task")) == ("stop", task)]
        if stops:
            look = {"colors": style.VERMILLION, "linewidth": 2.5}
            axes.vlines(stops, row, row + ROW_FILL, **look, label="stopped early")

    turned = [report.tasks[task].turns for task in tasks]
    names = [
        f"{name}\n{count.trained:,} trained, {count.skipped:,} skipped"
        for name, count in zip(style.labels(tasks), turned, strict=True)
    ]
    axes.set_yticks(np.arange(len(tasks)) + ROW_FILL / 2, names[::-1])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    axes.set(xlim=(0, edges[-1] + 0.5), ylim=(-0.1, len(tasks)))
    style.step_axis(axes)
    style.legend_below(figure)
    return figure


def schedule_bins(last: int, tasks: int) -> np.ndarray:
    """Return the edges of equal bins over the steps 1 to ``last``: single steps if they are few.

    The last bin takes the rest too: a short bin would show chance.
    """
    width = 1
    if last > SCHEDULE_BINS:  # with a multiple of the tasks, round-robin fills every bin alike
        width = min(last, math.ceil(last / SCHEDULE_BINS / tasks) * tasks)
    return np.append(np.arange(0.5, last - width + 1, width), last + 0.5)


# curves of such different lengths are drawn over the share of their steps
MUCH_LONGER = 2
# a run's scores by step, for each task and metric
Curves = dict[tuple[str, str], dict[int, float]]
# (report, log, evaluations in the log) -> curves
CurvesOf = Callable[[RunReport, list[Event], list[Event]], Curves]


def score_curves(report: RunReport, events: list[Event], evaluations: list[Event]) -> Curves:
    """Return each task's metric at each evaluation."""
    curves: Curves = {}
    for task, result in report.tasks.items():
        # a stage may evaluate only its own tasks
        scored = [event for event in evaluations if task in event["tasks"]]
        scores = style.numbers(event["tasks"][task][result.metric] for event in scored)
        # tasks that are only evaluated are always scored on dev
        apart = result.evaluate_only and report.selection_split != "dev"
        steps = [event["step"] for event in scored]
        by_step = dict(zip(steps, scores, strict=True))
        curves[task, result.metric + " on dev" * bool(apart)] = by_step
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
    stages begin, if they begin at the same steps in all runs. If a group has more than
    ``MUCH_LONGER`` times the steps of another, each curve is drawn over the share of its own steps,
    which the legend counts: over steps, the shorter ones would fill a corner.

    Args:
        groups: the runs of each group.
        curves_of: ``score_curves`` or ``loss_gaps``.
        measure: what the curves are, for the vertical axis.

    Raises:
        UserError: a run without report.json or without its log.
    """
    splits, stages, curves = set(), [], dict[str, list[Curves]]()
    for name, runs in groups.items():
        loaded = [_load_curves(RunDirectory(run), curves_of) for run in runs]
        splits |= {split for split, _, _ in loaded}
        stages += [begins for _, begins, _ in loaded]
        curves[name] = [of for _, _, of in loaded]
    ends = {name: max([1, *(step for of in every for steps in of.values() for step in steps)])
            for name, every in curves.items()}  # fmt: skip
    shares = max(ends.values()) > MUCH_LONGER * min(ends.values())
    names = {}
    for name, shown in zip(groups, style.labels(groups, width=40), strict=True):
        length = f"{ends[name]:,} steps, " * shares
        count = "1 seed" if len(groups[name]) == 1 else f"{len(groups[name])} seeds"
        names[name] = f"{shown} ({length}{count})"
    keys = list(dict.fromkeys(key for every in curves.values() for of in every for key in of))
    titles = [style.metric_title(*key) for key in keys]
    figure, places = style.panels(titles, (3.9, 3.3), in_a_row=IN_A_ROW)
    for axes, key in zip(places, keys, strict=False):
        for place, (name, every) in enumerate(curves.items()):
            if seeds := [of[key] for of in every if key in of]:
                steps = sorted(set.intersection(*map(set, seeds)))
                scores = np.array([[seed[step] for step in steps] for seed in seeds])
                look = style.group_style(place) | style.LOOKS["curve"]
                unit = 100 / ends[name] if shares else 1
                across = [unit * step for step in steps]
                axes.plot(across, scores.mean(axis=0), label=names[name], **look)
                if len(seeds) > 1:
                    low, high = scores.min(axis=0), scores.max(axis=0)
                    band = {"color": look["color"], "alpha": 0.18, "linewidth": 0}
                    axes.fill_between(across, low, high, **band)
        if shares:
            axes.set_xlabel("share of its own steps, in %")
        else:
            style.step_axis(axes, stages[0] if stages.count(stages[0]) == len(stages) else [])
    places[0].set_ylabel(f"{measure} on {' or '.join(sorted(splits))}")
    if any(len(every) > 1 for every in curves.values()):
        places[0].fill_between([], [], color=style.PALE, label="lowest to highest seed")
    style.legend_below(figure, list(names.values()))
    return figure


def _load_curves(
    run: RunDirectory, curves_of: CurvesOf
) -> tuple[str, list[tuple[int, str]], Curves]:
    """Return a run's selection split, where its stages begin, and its curves."""
    report = run.load_report()
    split = report.selection_split
    with reading(run.metrics):
        events = run.load_events()
        evaluations = [e for e in events if e["event"] == "eval" and e["split"] == split]
        return split, stage_begins(events), curves_of(report, events, evaluations)


# colour, marker and name of each pooling, in the order of the legend
STYLES = {
    "cls": (style.BLUE, "o", "[CLS]"),
    "mean": (style.ORANGE, "s", "mean of tokens"),
    "max": (style.GREEN, "^", "maximum over tokens"),
    "first-last mean": (style.VERMILLION, "D", "mean of first and last layer"),
}
NAME = 70  # characters of an encoder's name
TITLE = "Agreement of the sentence vectors with human scores"


def draw_layers(encoders: Mapping[str, Mapping[str, SuiteLayers]]) -> "style.Figure":
    """Draw Spearman by layer, where layer 0 is the embeddings.

    One encoder has a panel per suite with a curve per pooling. Several encoders have a panel per
    pooling: a curve per encoder is the mean over the suites of the first encoder, and a faint one
    is a suite.
    """
    (first, suites), *others = encoders.items()
    if others:
        return _several_encoders(encoders)
    size, shared = (2.6, 2.3), {"sharex": True, "sharey": True}
    figure, places = style.panels(list(suites), size, (1.0, 1.2), 4, **shared)
    for axes, entry in zip(places, suites.values(), strict=True):
        for name, (colour, marker, title) in STYLES.items():
            look = {"color": colour, "marker": marker}
            _by_layer(axes, entry["all"][name], look | style.LOOKS["curve"], title)
    title = f"{TITLE}, by layer\n{style.end_of_path(first, NAME)}"
    figure.supylabel("Spearman x 100, all pairs", fontsize=style.LABEL)
    figure.suptitle(title, fontsize=style.TITLE)
    style.legend_below(figure)
    return figure


def _several_encoders(encoders: Mapping[str, Mapping[str, SuiteLayers]]) -> "style.Figure":
    """Draw a panel per pooling, with the mean over suites and each suite of every encoder."""
    suites = list(next(iter(encoders.values())))
    titles = [STYLES[pooling][2] for pooling in POOLINGS]
    figure, places = style.panels(titles, (3.3, 3.6), (0.4, 0.6), 3, sharey=True)
    names = style.labels([style.end_of_path(name, NAME) for name in encoders], width=NAME)
    for axes, pooling in zip(places, POOLINGS, strict=True):
        for place, (name, of) in enumerate(zip(names, encoders.values(), strict=True)):
            of_all: list[Any] = [of[suite]["all"] for suite in suites if suite in of]
            look = style.group_style(place) | style.LOOKS["curve"]
            scores = np.array([style.numbers(one[pooling]) for one in of_all])
            for suite in scores:
                axes.plot(100 * suite, color=look["color"], linewidth=0.7, alpha=0.3)
            missing = f" ({len(of_all)} of {len(suites)} suites)" * (len(of_all) < len(suites))
            _by_layer(axes, scores.mean(axis=0).tolist(), look, name + missing)
            if pooling == "mean":
                averages = style.numbers(one[FIRST_LAST] for one in of_all)
                _by_layer(axes, averages.mean(), look, "")
    places[-1].plot([], [], color=style.DARK, **style.LOOKS["average"], label=STYLES[FIRST_LAST][2])
    places[-1].plot([], [], color=style.DARK, linewidth=0.7, alpha=0.3, label="one suite")
    places[0].set_ylabel("Spearman x 100, all pairs", fontsize=style.LABEL)
    title = f"{TITLE}, by layer: mean over {', '.join(suites)}"
    figure.suptitle(style.wrapped(title, 100, longest=len(title)), fontsize=style.TITLE)
    style.legend_below(figure)
    return figure


def _by_layer(axes: "style.Axes", scores: Any, look: style.Look, label: str) -> None:
    """Draw a score per layer as a curve, or one score of an encoder as a horizontal line."""
    if isinstance(scores, list):
        axes.plot(100 * style.numbers(scores), **look, label=label)
    elif scores is not None:
        axes.axhline(100 * scores, color=look["color"], **style.LOOKS["average"], label=label)
    axes.locator_params(axis="x", integer=True)
    axes.tick_params(labelbottom=True)
    axes.set_xlabel("layer (0: embeddings)", fontsize=style.LABEL)


def draw_domains(encoders: Mapping[str, Mapping[str, SuiteLayers]]) -> "style.Figure":
    """Draw a panel per encoder and a row per subset: Spearman of the last layer by pooling.

    The rows are those of the first encoder. The poolings of a row are below one another, so that
    equal scores do not hide one.
    """
    first = next(iter(encoders.values()))
    rows = [(suite, subset) for suite, entry in first.items() for subset in entry["subsets"]]
    names = [f"{a} {b}" if b not in ("test", a) else a for a, b in rows]
    size = (7.0 if len(encoders) == 1 else 3.6, 0.9 + 0.35 * max(len(rows), 3))
    titles = style.labels([style.end_of_path(name, NAME) for name in encoders], width=32)
    figure, panels = style.panels(titles, size, (1.5, 1.0), 2, sharex=True, sharey=True)
    for axes, suites in zip(panels, encoders.values(), strict=True):
        for number, (name, (colour, marker, pooling)) in enumerate(STYLES.items()):
            found = ((suites[a]["subsets"] if a in suites else {}).get(b) for a, b in rows)
            scores = [values[name] if values else None for values in found]
            last = style.numbers(each[-1] if isinstance(each, list) else each for each in scores)
            places = np.arange(len(rows)) + style.aside(number, len(STYLES))
            axes.scatter(100 * last, places, s=26, color=colour, marker=marker, label=pooling)
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("Spearman x 100", fontsize=style.LABEL)
        axes.grid(visible=False)
        for row in range(1, len(rows)):
            axes.axhline(row - 0.5, color="0.9", linewidth=0.8, zorder=0)
    panels[0].set_yticks(range(len(rows)), style.labels(names, width=32), fontsize=style.SMALL)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    title = f"{TITLE}, by subset:\npoolings of the last layer, and of the first and the last"
    figure.suptitle(title, fontsize=style.TITLE)
    style.legend_below(figure)
    return figure


MAX_PAIRS_WITH_NUMBERS = 12
PLAIN: style.Look = {"marker": ""}  # of a line over dots


def draw_conflict(events: list[Event], stages: list[tuple[int, str]]) -> "style.Figure | None":
    """Draw each pair's cosine over the encoder (left) and its mean over time per part (right).

    A cosine of one batch is mostly noise, so it is a dot; the line is the running mean.

    None if the run did not measure it (see `training.conflict_steps`) or never had two tasks.
    """
    measured = [event for event in events if event["event"] == "conflict" and event["cosines"]]
    if not measured:
        return None
    pairs = list(dict.fromkeys(pair for event in measured for pair in event["cosines"]["all"]))
    every = {part for event in measured for part in event["cosines"]}  # a stage may freeze some
    parts = sorted(every - {"all"}, key=lambda part: int(part.partition("_")[2] or 0))

    def cosines(part: str, pair: str) -> np.ndarray:
        """NaN where it was not measured, as a task had stopped."""
        return style.numbers(event["cosines"].get(part, {}).get(pair) for event in measured)

    def mean(part: str, pair: str) -> float:
        known = [cosine for cosine in cosines(part, pair) if math.isfinite(cosine)]
        return float(np.mean(known)) if known else math.nan

    titles = ["running mean; below 0 the tasks pull apart", "mean over the training, by layer"]
    size = (5.5, max(3.6, 0.34 * len(parts) + 1.6))
    figure, (over_time, by_layer) = style.panels(titles, size, in_a_row=2, width_ratios=[3, 2])
    steps, names = [event["step"] for event in measured], style.labels(pairs)
    for place, (pair, name) in enumerate(zip(pairs, names, strict=True)):
        look = style.group_style(place)
        one = {"color": look["color"], "marker": ".", "markersize": 3, "alpha": 0.3}
        over_time.plot(steps, cosines("all", pair), linestyle="none", **one)
        over_time.plot(steps, smoothed(cosines("all", pair)), label=name, **look | PLAIN)
    over_time.axhline(0, **style.LOOKS["zero"])
    over_time.set_ylabel("cosine of the encoder's gradients")
    style.step_axis(over_time, stages)
    means = np.array([[mean(part, pair) for pair in pairs] for part in parts])
    widest = max(0.1, float(np.nanmax(np.abs(means))))
    shown = len(pairs) <= MAX_PAIRS_WITH_NUMBERS
    texts = [[f"{value:z.3f}" if shown else "" for value in row] for row in means]
    shades = {"cmap": style.TWO_HUES, "vmin": -widest, "vmax": widest}
    rows = [part.replace("_", " ") for part in parts]
    mesh = style.cell_map(by_layer, means, rows, names, texts=texts, size=style.SMALL, **shades)
    style.colour_bar(figure, mesh, "", ax=by_layer)
    style.legend_below(figure)
    return figure


SPACE = {
    "alignment": "alignment of similar pairs\n(lower is better)",
    "uniformity": "uniformity of all sentences\n(lower is better)",
    "mean_cosine": "mean cosine of any two\n(lower is better)",
}


def draw_space(events: list[Event], stages: list[tuple[int, str]]) -> "style.Figure | None":
    """Draw a panel per measure and a line per task that is only evaluated; None without one.

    Lines start before the first step. Lower is better in all panels (Wang & Isola 2020).
    """
    evaluations = [event for event in events if event["event"] in ("space", "eval")]
    first = evaluations[0]["tasks"] if evaluations else {}
    tasks = [task for task, scores in first.items() if "uniformity" in scores]
    if not tasks:
        return None
    figure, places = style.panels(list(SPACE.values()), (3.7, 3.4), in_a_row=3)
    steps = [event["step"] for event in evaluations]
    for axes, measure in zip(places, SPACE, strict=True):
        for place, (task, name) in enumerate(zip(tasks, style.labels(tasks), strict=True)):
            values = [event["tasks"].get(task, {}).get(measure) for event in evaluations]
            axes.plot(steps, style.numbers(values), label=name, **style.group_style(place))
        style.step_axis(axes, stages)
    style.legend_below(figure)
    return figure


def scatter(task: str, result: TaskReport, predictions: Records) -> "style.Figure":
    """Draw one dot per dev row; the title has the first metric of the task type."""
    labelled = [record for record in predictions if record["label"] is not None]
    gold = style.numbers(record["label"] for record in labelled)
    predicted = style.numbers(record["prediction"] for record in labelled)
    metric = task_type(result.label_type).selects[0]
    value = result.dev[metric]
    score = f"{metric.capitalize()} {'undefined' if value is None else f'{value:.3f}'}"
    title = f"{style.label(task)}: {score} on {len(labelled):,} dev rows"
    figure, (axes,) = style.panels([title], (5.4, 5.0))
    axes.scatter(gold, predicted, s=14, color=style.BLUE, alpha=0.35, linewidths=0)
    low, high = result.label_range or (gold.min(initial=0), gold.max(initial=1))
    line: Any = (0, (6, 2))
    axes.plot(
        [low, high], [low, high], color=style.ORANGE, linestyle=line, label="predicted = gold"
    )
    axes.set(xlabel="gold", ylabel="predicted")
    axes.legend(loc="upper left", frameon=False)
    return figure
