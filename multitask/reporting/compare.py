"""Compare finished runs: scores over seeds, differences to a baseline, their intervals.

Reads saved files only (``report.json``, ``config.yaml``, ``predictions/TASK.dev.jsonl``).
docs/comparison-files.md describes the result; ``statistics.py`` explains the statistics and their
limits.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from multitask.config.registry import task_type
from multitask.reporting.grid_axes import long_axes, marginals
from multitask.reporting.notes import notes, several_machines
from multitask.reporting.read_runs import Group, ScoredRows, differing_settings, run_config
from multitask.reporting.sheet import FORMAT, MEAN, TRIVIAL, Axis, Cells, Column, Row, Sheet
from multitask.reporting.statistics import (
    Resampled,
    Runs,
    every_task,
    held_out,
    mean_column,
    over_seeds,
    read_split,
    scored_groups,
    task_column,
)
from multitask.reporting.training_facts import row_facts
from multitask.reporting.verdicts import verdicts
from multitask.store.files import without_nan
from multitask.store.run_directory import RunDirectory
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
) -> Sheet:
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
    loaded = load_reports(groups)
    others = [None if i == at else at for i in range(len(groups))]
    sets = {task: read_split(task, loaded, "dev") for task in every_task(loaded)}
    columns, resampled, counted = score_columns(loaded, sets, resamples)
    scored = {name: scored_groups(column, others) for name, column in resampled.items()}
    configs = [{**run_config(run), "probe": report.probe} for (run, report), *_ in loaded]
    settings = differing_settings(configs)
    machines = several_machines([report for runs in loaded for _, report in runs])
    several_axes = len(long_axes(axes)) > 1
    held_cells, held_columns = held_out(loaded, counted, resamples if several_axes else 0)
    rows: list[Row] = []
    for i, (group, runs) in enumerate(zip(groups, loaded, strict=True)):
        row: Row = {
            "name": group.name,
            "title": group.name,
            "baseline": None if i == at else baseline,
            "runs": [str(run) for run, _ in runs],
            "seeds": [report.seed for _, report in runs],
            "point": group.point,
            "settings": settings[i],
            **row_facts(configs[i], [report for _, report in runs]),
            "cells": {name: cell for name, cells in scored.items() if (cell := cells[i])},
            "holdout": held_cells[i] or None,
        }
        rows.append({**row, "epoch_seconds": None} if machines else row)
    sheet: Sheet = {
        "format": FORMAT,
        "title": "Comparison",
        "paper": None,
        "statistic": "mean",
        "baseline": baseline,
        "margin": margin,
        "resamples": resamples,
        "confidence": 0.95,
        "columns": columns,
        "axes": list(axes),
        "rows": rows,
        "notes": notes([run for runs in loaded for run in runs]),
    }
    sheet["metrics"] = every_metric(
        names, loaded, sets, resampled, others=others, resamples=resamples
    )
    sheet["transfer"] = transfer(sheet)
    sheet["marginals"] = marginals(sheet, resampled, held_columns)
    sheet = without_nan(sheet)
    return {**sheet, "verdicts": verdicts(sheet)}


def load_reports(groups: Sequence[Group]) -> list[Runs]:
    """Return the runs of each group with their reports, by seed.

    Raises UserError for runs of a group that differ in more than their seed, and for trials among
    other runs.
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
        loaded.append(sorted(runs, key=lambda run: run[1].seed))
    kinds = {report.trial: run for runs in loaded for run, report in runs}
    if len(kinds) > 1:
        message = "compare trials only with trials: leave one of the two out"
        raise UserError(f"{kinds[True]} is a trial (--try), {kinds[False]} is none: {message}")
    return loaded


def every_metric(
    names: Sequence[str],
    reports: Sequence[Runs],
    sets: Mapping[str, Sequence[Sequence[ScoredRows]]],
    selecting: Mapping[str, Resampled],
    *,
    others: Sequence[int | None],
    resamples: int,
) -> dict[str, dict[str, Cells]]:
    """Return the cells of every metric that the runs report on dev, by task, metric and group.

    ``sets`` are each task's dev predictions, ``selecting`` the columns of the selecting metrics,
    ``others`` the places of the baselines. ``trivial`` is the guess of the first group that reports
    the metric, which needs no text; it has no interval.
    """
    found: dict[str, dict[str, Cells]] = {}
    for task, every in sets.items():
        of_all = [rows for scored in every for rows in scored]
        for metric in dict.fromkeys(name for rows in of_all for name in rows.reported):
            reported = [
                scored if scored and metric in scored[0].reported else () for scored in every
            ]
            first = next(runs for runs, scored in zip(reports, reported, strict=True) if scored)
            column = selecting[task]
            if metric != of_all[0].metric:
                rescored = [[rows.by(metric) for rows in scored] for scored in reported]
                column = task_column(task, reports, rescored, resamples, split="dev")
            guesses = [report.tasks[task].baselines.trivial.get(metric) for _, report in first]
            cells = zip(names, scored_groups(column, others), strict=True)
            found.setdefault(task, {})[metric] = {
                TRIVIAL: over_seeds(np.array(guesses, dtype=float).tolist()),
                **{name: cell for name, cell in cells if cell},
            }
    return found


def score_columns(
    reports: Sequence[Runs], sets: Mapping[str, Sequence[Sequence[ScoredRows]]], resamples: int
) -> tuple[dict[str, Column], dict[str, Resampled], list[str]]:
    """Return a column per task and one for their mean, with each one's scores, and who counts.

    These are the tasks of the mean. There is no mean if no task counts for it.
    """
    columns: dict[str, Column] = {}
    resampled: dict[str, Resampled] = {}
    trained: dict[str, TaskType] = {}
    for task in sets:
        found = [report.tasks.get(task) for runs in reports for _, report in runs]
        every = [entry for entry in found if entry is not None]
        metric, rows = every[0].metric, every[0].dev["rows"]
        columns[task] = {"title": f"{task} {metric}", "task": task, "metric": metric, "rows": rows}
        if not any(entry.evaluate_only for entry in every):
            trained[task] = task_type(every[0].label_type)
        resampled[task] = task_column(task, reports, sets[task], resamples, split="dev")
    if counted := joint_tasks(trained):
        columns[MEAN] = {"title": "mean"}
        resampled[MEAN] = mean_column([resampled[task] for task in counted])
    return columns, resampled, counted


def transfer(sheet: Sheet) -> dict[str, Any]:
    """Compute the gains of multi-task over single-task rows; empty if one kind is missing.

    Delta m of a row over T tasks is 100 / T sum_t (M_t - B_t) / B_t, with B_t the mean score of
    task t trained alone (Maninis, Radosavovic and Kokkinos, "Attentive Single-Tasking of Multiple
    Tasks", CVPR 2019; all metrics here are better when higher). It is undefined (None)
    where a single-task score is not above zero, or a score is missing.

    If several rows have the same one or two tasks, the first one counts.

    Returns:
        ``singles``: the row of each task trained alone. ``gains``: by row, ``delta_m`` and the
        relative gain of each of its ``tasks``, in percent. ``matrix[A][B]``: what adding task A to
        the training of B changes B's score by (``change``, and the ``row`` of A and B).
    """
    scores: dict[str, dict[str, float | None]] = {
        row["name"]: {task: cell["mean"] for task, cell in row["cells"].items() if task != MEAN}
        for row in sheet["rows"]
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
    gains: dict[str, Any] = {}
    matrix: dict[str, dict[str, Any]] = {}
    for name, by_task in several.items():
        changes = {task: _gain(score, alone[task]) for task, score in by_task.items()}
        relative = [percent for _, percent in changes.values() if percent is not None]
        gains[name] = {
            "delta_m": statistics.fmean(relative) if len(relative) == len(changes) else None,
            "tasks": {task: percent for task, (_, percent) in changes.items()},
        }
        if len(by_task) == 2:
            for task, added in permutations(by_task):
                entry = {"change": changes[task][0], "row": name}
                matrix.setdefault(added, {}).setdefault(task, entry)
    return {"singles": singles, "gains": gains, "matrix": matrix}


def _gain(score: float | None, base: float | None) -> tuple[float | None, float | None]:
    """Return the gain over ``base``, and in percent of it; this one only if ``base`` is above 0."""
    if score is None or base is None or not math.isfinite(score - base):
        return None, None
    gain = score - base
    return gain, 100 * gain / base if base > 0 else None
