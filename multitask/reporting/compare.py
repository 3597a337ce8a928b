"""Compare finished runs: scores over seeds, differences to a baseline, their intervals.

Reads saved files only (``report.json``, ``config.yaml``, ``predictions/TASK.dev.jsonl``).
docs/comparing.md describes the keys of a comparison; ``statistics.py`` explains the statistics and
their limits.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, permutations, product
from typing import Any

import numpy as np

from multitask.reporting.figures.maps import Heatmap
from multitask.reporting.notes import notes, training_times
from multitask.reporting.read_runs import (
    Group,
    ScoredRows,
    differing_settings,
    load_split,
    run_config,
    shown,
)
from multitask.reporting.sheet import (
    Added,
    Axis,
    AxisValue,
    ComparedTask,
    Comparison,
    Gain,
    Marginal,
    Scores,
    Trained,
    Transfer,
)
from multitask.reporting.statistics import (
    Column,
    Runs,
    held_out,
    mean_column,
    scored_groups,
    task_column,
)
from multitask.reporting.verdicts import comparison_verdicts, trained_rows, updates
from multitask.store.files import without_nan
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport
from multitask.tasks.base import TaskType
from multitask.tasks.metrics import joint_tasks
from multitask.utils.errors import UserError, suggest


def compare(
    groups: list[Group],
    baseline: str,
    *,
    axes: Sequence[Axis] = (),
    margin: float | None = None,
    resamples: int = 2000,
) -> Comparison:
    """Compare each group with the group named ``baseline``; plain JSON values.

    The same input gives the same numbers. ``axes`` are those of a grid, each with its ``key``,
    ``labels`` and ``values``. Differences within ``margin`` are called equal.

    Raises:
        UserError: no such group, a run without a report, trials among other runs, or runs that
            were not scored on the same rows by the same metric.
    """
    names = [group.name for group in groups]
    if baseline not in names:
        raise UserError(f"no group is called {baseline!r}{suggest(baseline, names)}")
    at = names.index(baseline)
    reports = load_reports(groups)
    tasks, columns, counted = score_columns(reports, resamples)
    baselines = [None if i == at else at for i in range(len(groups))]
    scored = {task: scored_groups(column, baselines) for task, column in columns.items()}
    means = mean_column([columns[task] for task in counted])
    overall = scored_groups(means, baselines) if counted else [None] * len(groups)
    configs = [{**run_config(run), "probe": report.probe} for (run, report), *_ in reports]
    settings = differing_settings(configs)
    times = training_times([[report for _, report in runs] for runs in reports], at)
    comparison: Comparison = {
        "format": 1,
        "baseline": baseline,
        "resamples": resamples,
        "confidence": 0.95,
        "margin": margin,
        "tasks": tasks,
        "axes": list(axes),
        "groups": [
            {
                "name": group.name,
                "runs": [str(run) for run, _ in runs],
                "seeds": [report.seed for _, report in runs],
                "point": group.point,
                "settings": settings[i],
                **_trained(configs[i], [report for _, report in runs]),
                "tasks": {task: score for task in tasks if (score := scored[task][i])},
                "overall": overall[i],
                "holdout": held_out(runs, counted),
                "training_time": times[i],
            }
            for i, (group, runs) in enumerate(zip(groups, reports, strict=True))
        ],
        "notes": notes([run for runs in reports for run in runs]),
    }
    comparison["transfer"] = transfer(comparison)
    comparison["marginals"] = marginals(comparison)
    comparison = without_nan(comparison)
    return {**comparison, "verdicts": comparison_verdicts(comparison)}


def _trained(config: Mapping[str, Any], reports: Sequence[RunReport]) -> Trained:
    """Return the counts of a group's training; a probe trains its heads apart, so it has none."""
    probe = reports[0].probe
    return {
        "trained_parameters": reports[0].trained_parameters,
        "updates": None if probe else updates(reports),
        "trained_rows": None if probe else trained_rows(config, reports),
        "untrained": [
            task for task, entry in reports[0].tasks.items() if not (probe or entry.turns.trained)
        ],
    }


def load_reports(groups: Sequence[Group], metrics: Mapping[str, str] | None = None) -> list[Runs]:
    """Return the runs of each group with their reports, by seed.

    With ``metrics`` the reports have only these tasks, each by the named metric. Raises UserError
    for runs of a group that differ in more than their seed, and for trials among other runs.
    """
    loaded = []
    for group in groups:
        runs = [(run, RunDirectory(run).load_report()) for run in group.runs]
        (first, report), *others = runs
        for run, other in others:
            what = "one is a probe" if other.probe != report.probe else ""
            what = "their tasks differ" if set(other.tasks) != set(report.tasks) else what
            if what:
                raise UserError(f"{first} and {run} are not seeds of one setting: {what}")
        if metrics is not None:
            runs = [(run, _measured_by(metrics, report)) for run, report in runs]
        loaded.append(sorted(runs, key=lambda run: run[1].seed))
    kinds = {report.trial: run for runs in loaded for run, report in runs}
    if len(kinds) > 1:
        message = "compare trials only with trials: leave one of the two out"
        raise UserError(f"{kinds[True]} is a trial (--try), {kinds[False]} is none: {message}")
    return loaded


def _measured_by(metrics: Mapping[str, str], report: RunReport) -> RunReport:
    """Reduce a report to these tasks, each with another metric."""
    tasks = {task: report.tasks[task] for task in metrics if task in report.tasks}
    return report.with_tasks({task: entry.by(metrics[task]) for task, entry in tasks.items()})


def _dev_rows(task: str, runs: Runs) -> list[ScoredRows]:
    """Load the dev rows of each run of a group; an empty list if the group lacks the task."""
    return [
        load_split(run, task, "dev", report.tasks[task])
        for run, report in runs
        if task in report.tasks
    ]


def score_columns(
    reports: list[Runs], resamples: int
) -> tuple[dict[str, ComparedTask], dict[str, Column], list[str]]:
    """Metric and rows of each task, its column, and the tasks that count for the mean."""
    tasks: dict[str, ComparedTask] = {}
    columns: dict[str, Column] = {}
    trained: dict[str, TaskType] = {}
    for task in dict.fromkeys(task for runs in reports for task in runs[0][1].tasks):
        sets = [_dev_rows(task, runs) for runs in reports]
        first = next(run for scored in sets for run in scored)
        tasks[task] = {"metric": first.metric, "rows": len(first.rows)}
        every = [report.tasks.get(task) for runs in reports for _, report in runs]
        if not any(entry and entry.evaluate_only for entry in every):
            trained[task] = first.task_type
        columns[task] = task_column(task, sets, reports, resamples)
    return tasks, columns, joint_tasks(trained)


def transfer(comparison: Comparison) -> Transfer:
    """Compute the gains of multi-task over single-task groups; empty if one kind is missing.

    Delta m of a group over T tasks is 100 / T sum_t (M_t - B_t) / B_t, with B_t the mean score of
    task t trained alone (Maninis, Radosavovic and Kokkinos, "Attentive Single-Tasking of Multiple
    Tasks", CVPR 2019; all metrics here are better when higher). It is undefined (None)
    where a single-task score is not above zero, or a score is missing.

    If several groups have the same one or two tasks, the first one counts.

    Returns:
        ``singles``: the group of each task trained alone. ``gains``: by group, ``delta_m`` and the
        relative gain of each of its ``tasks``, in percent. ``matrix[A][B]``: what adding task A to
        the training of B changes B's score by (``change``, and the ``group`` of A and B).
    """
    scores: dict[str, dict[str, float | None]] = {
        group["name"]: {task: entry["mean"] for task, entry in group["tasks"].items()}
        for group in comparison["groups"]
    }
    singles: dict[str, str] = {}
    for name, by_task in scores.items():
        if len(by_task) == 1:
            singles.setdefault(next(iter(by_task)), name)
    alone = {task: scores[name][task] for task, name in singles.items()}
    several = {
        name: by_task
        for name, by_task in scores.items()
        if len(by_task) > 1 and by_task.keys() <= alone.keys()
    }
    if not several:
        return {}
    gains: dict[str, Gain] = {}
    matrix: dict[str, dict[str, Added]] = {}
    for name, by_task in several.items():
        changes = {task: _gain(score, alone[task]) for task, score in by_task.items()}
        relative = {task: percent for task, (_, percent) in changes.items()}
        defined = [percent for percent in relative.values() if percent is not None]
        delta = statistics.fmean(defined) if len(defined) == len(relative) else None
        gains[name] = {"delta_m": delta, "tasks": relative}
        if len(by_task) == 2:
            for task, added in permutations(by_task):
                entry: Added = {"change": changes[task][0], "group": name}
                matrix.setdefault(added, {}).setdefault(task, entry)
    return {"singles": singles, "gains": gains, "matrix": matrix}


def _gain(score: float | None, base: float | None) -> tuple[float | None, float | None]:
    """Return the gain over ``base``, and in percent of it; this one only if ``base`` is above 0."""
    if score is None or base is None or not math.isfinite(score - base):
        return None, None
    gain = score - base
    return gain, 100 * gain / base if base > 0 else None


Point = tuple[str, ...]
# a cell's entry in one column, and its seeds
Cell = tuple[Scores, list[int]]


def long_axes(comparison: Comparison) -> list[int]:
    """Return the positions of the grid's axes that have several values."""
    return [i for i, axis in enumerate(comparison["axes"]) if len(axis["labels"]) > 1]


def axis_labels(axis: Axis) -> dict[str, str]:
    """Shorten the labels, as the axis already has the key: ``2e-05``, not ``lr_2e-05``."""
    return {
        label: shown(value)
        if not isinstance(value, str) and label.endswith(f"_{shown(value)}")
        else label
        for label, value in zip(axis["labels"], axis["values"], strict=True)
    }


def heatmaps(comparison: Comparison, task: str | None) -> list[Heatmap]:
    """Build a map of a task's scores per pair of axes; ``task`` None means the mean of tasks.

    With more than two axes, a number is a mean over the other axes; it leaves out the points at
    which a cell of the map has no score. Returns no map for fewer than two axes.
    """
    axes, cells = comparison["axes"], _cells(comparison, task)
    maps = []
    for pair in combinations(long_axes(comparison), 2):
        rows, columns = (axes[i] for i in pair)
        labels = [list(axis_labels(axis).values()) for axis in (rows, columns)]
        means = [_mean(each) if each else math.nan for each in _sets(axes, cells, pair)]
        values = np.array(means).reshape([len(side) for side in labels])
        maps.append(Heatmap(values, labels[0], labels[1], rows["key"], columns["key"]))
    return maps


def marginals(comparison: Comparison) -> list[AxisValue]:
    """Return the mean scores of each value of each axis over the points of the other axes.

    A mean uses only the points at which every value of the axis has a score, so that the values
    are compared on the same points. ``cells`` counts them; the entry is None if there is none.
    ``sd`` is the standard deviation over seeds of the mean over cells; NaN for one seed, or if the
    cells have different seeds. For fewer than two axes the list is empty, as the means would be
    the table itself.
    """
    long = long_axes(comparison)
    if len(long) < 2:
        return []
    axes = comparison["axes"]
    cells = {task: _cells(comparison, task) for task in (*comparison["tasks"], None)}
    entries: list[AxisValue] = []
    for i in long:
        sets = {task: _sets(axes, scored, (i,)) for task, scored in cells.items()}
        for at, label in enumerate(axes[i]["labels"]):
            means = {task: _marginal(by_label[at]) for task, by_label in sets.items()}
            overall = means[None]
            of_tasks = {task: mean for task, mean in means.items() if task is not None}
            entries.append(
                {"axis": axes[i]["key"], "label": label, "tasks": of_tasks, "overall": overall}
            )
    return entries


def _cells(comparison: Comparison, task: str | None) -> dict[Point, Cell]:
    """Return the cells of a column that have a score, by their labels on the axes."""
    cells = {}
    for group in comparison["groups"]:
        entry = group["overall"] if task is None else group["tasks"].get(task)
        if entry and entry["mean"] is not None and math.isfinite(entry["mean"]):
            point = tuple(group["point"][axis["key"]] for axis in comparison["axes"])
            cells[point] = (entry, group["seeds"])
    return cells


def _sets(axes: Sequence[Axis], cells: dict[Point, Cell], sides: Sequence[int]) -> list[list[Cell]]:
    """Return, per combination of labels on the axes ``sides``, its cells along the other axes.

    If the other axes have several points, a point at which some combination has no score is left
    out for all.
    """
    rest = [i for i in range(len(axes)) if i not in sides]
    places: dict[Point, dict[Point, Cell]] = defaultdict(dict)
    for point, cell in cells.items():
        places[tuple(point[i] for i in rest)][tuple(point[i] for i in sides)] = cell
    combined = list(product(*(axes[i]["labels"] for i in sides)))
    alone = all(len(axes[i]["labels"]) == 1 for i in rest)
    used = [place for place in places.values() if alone or len(place) == len(combined)]
    return [[place[each] for place in used if each in place] for each in combined]


def _mean(cells: Iterable[Cell]) -> float:
    return statistics.fmean(entry["mean"] for entry, _ in cells)


def _marginal(cells: list[Cell]) -> Marginal | None:
    if not cells:
        return None
    seeds = cells[0][1]
    sd = math.nan
    if len(seeds) > 1 and all(others == seeds for _, others in cells):
        by_seed = zip(*(entry["values"] for entry, _ in cells), strict=True)
        sd = statistics.stdev(statistics.fmean(values) for values in by_seed)
    return {"mean": _mean(cells), "sd": sd, "cells": len(cells)}
