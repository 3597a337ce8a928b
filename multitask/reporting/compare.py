"""Compare finished runs: scores over seeds, differences to a baseline, their intervals.

Reads saved files only (``report.json``, ``config.yaml``, ``predictions/TASK.dev.jsonl``).
docs/comparing.md describes the result; ``statistics.py`` explains the statistics and their limits.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, permutations, product
from typing import Any

import numpy as np

from multitask.reporting.figures.maps import Heatmap
from multitask.reporting.notes import notes, several_machines
from multitask.reporting.read_runs import Group, differing_settings, load_split, run_config, shown
from multitask.reporting.sheet import (
    FORMAT,
    MEAN,
    Axis,
    AxisValue,
    Cell,
    Column,
    Marginal,
    Row,
    Sheet,
)
from multitask.reporting.statistics import (
    Runs,
    held_out,
    mean_column,
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
    columns, scored, counted = score_columns(loaded, others, resamples)
    configs = [{**run_config(run), "probe": report.probe} for (run, report), *_ in loaded]
    settings = differing_settings(configs)
    machines = several_machines([report for runs in loaded for _, report in runs])
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
            "holdout": held_out(runs, counted),
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
    sheet["transfer"] = transfer(sheet)
    sheet["marginals"] = marginals(sheet)
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


def score_columns(
    reports: Sequence[Runs], baselines: Sequence[int | None], resamples: int
) -> tuple[dict[str, Column], dict[str, list[Cell | None]], list[str]]:
    """Return a column per task and one for their mean, each one's cells, and the tasks that count.

    ``baselines`` are the places of the groups that the groups are compared with. There is no mean
    if no task counts for it.
    """
    columns: dict[str, Column] = {}
    resampled = {}
    trained: dict[str, TaskType] = {}
    for task in dict.fromkeys(task for runs in reports for task in runs[0][1].tasks):
        sets = [
            [
                load_split(run, task, "dev", report.tasks[task])
                for run, report in runs
                if task in report.tasks
            ]
            for runs in reports
        ]
        first = next(run for scored in sets for run in scored)
        title = f"{task} {first.metric}"
        columns[task] = {
            "title": title,
            "task": task,
            "metric": first.metric,
            "rows": len(first.rows),
        }
        every = [report.tasks.get(task) for runs in reports for _, report in runs]
        if not any(entry and entry.evaluate_only for entry in every):
            trained[task] = first.task_type
        resampled[task] = task_column(task, sets, reports, resamples)
    if counted := joint_tasks(trained):
        columns[MEAN] = {"title": "mean"}
        resampled[MEAN] = mean_column([resampled[task] for task in counted])
    cells = {name: scored_groups(column, baselines) for name, column in resampled.items()}
    return columns, cells, counted


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


Point = tuple[str, ...]
# a cell of the grid: its scores in one column, and its seeds
Place = tuple[Cell, list[int]]


def long_axes(sheet: Mapping[str, Any]) -> list[int]:
    """Return the positions of the grid's axes that have several values."""
    return [i for i, axis in enumerate(sheet.get("axes", [])) if len(axis["labels"]) > 1]


def axis_labels(axis: Axis) -> dict[str, str]:
    """Shorten the labels, as the axis already has the key: ``2e-05``, not ``lr_2e-05``."""
    return {
        label: shown(value)
        if not isinstance(value, str) and label.endswith(f"_{shown(value)}")
        else label
        for label, value in zip(axis["labels"], axis["values"], strict=True)
    }


def heatmaps(sheet: Sheet, column: str) -> list[Heatmap]:
    """Build a map of a column's scores per pair of axes.

    With more than two axes, a number is a mean over the other axes; it leaves out the points at
    which a cell of the map has no score. Returns no map for fewer than two axes.
    """
    axes, cells = sheet["axes"], _places(sheet, column)
    maps = []
    for pair in combinations(long_axes(sheet), 2):
        rows, columns = (axes[i] for i in pair)
        labels = [list(axis_labels(axis).values()) for axis in (rows, columns)]
        means = [_mean(each) if each else math.nan for each in _sets(axes, cells, pair)]
        values = np.array(means).reshape([len(side) for side in labels])
        maps.append(Heatmap(values, labels[0], labels[1], rows["key"], columns["key"]))
    return maps


def marginals(sheet: Sheet) -> list[AxisValue]:
    """Return the mean scores of each value of each axis over the points of the other axes.

    A mean uses only the points at which every value of the axis has a score, so that the values
    are compared on the same points. ``cells`` counts them; the entry is None if there is none.
    ``sd`` is the standard deviation over seeds of the mean over cells; NaN for one seed, or if the
    cells have different seeds. For fewer than two axes the list is empty, as the means would be
    the table itself.
    """
    long = long_axes(sheet)
    if len(long) < 2:
        return []
    axes = sheet["axes"]
    places = {name: _places(sheet, name) for name in sheet["columns"]}
    return [
        {
            "axis": axes[i]["key"],
            "label": label,
            "cells": {name: _marginal(_sets(axes, of, (i,))[at]) for name, of in places.items()},
        }
        for i in long
        for at, label in enumerate(axes[i]["labels"])
    ]


def _places(sheet: Sheet, column: str) -> dict[Point, Place]:
    """Return the cells of a column that have a score, by their labels on the axes."""
    return {
        tuple(row["point"][axis["key"]] for axis in sheet["axes"]): (cell, row["seeds"])
        for row in sheet["rows"]
        if (cell := row["cells"].get(column))
        and cell["mean"] is not None
        and math.isfinite(cell["mean"])
    }


def _sets(
    axes: Sequence[Axis], cells: dict[Point, Place], sides: Sequence[int]
) -> list[list[Place]]:
    """Return, per combination of labels on the axes ``sides``, its cells along the other axes.

    If the other axes have several points, a point at which some combination has no score is left
    out for all.
    """
    rest = [i for i in range(len(axes)) if i not in sides]
    places: dict[Point, dict[Point, Place]] = defaultdict(dict)
    for point, cell in cells.items():
        places[tuple(point[i] for i in rest)][tuple(point[i] for i in sides)] = cell
    combined = list(product(*(axes[i]["labels"] for i in sides)))
    alone = all(len(axes[i]["labels"]) == 1 for i in rest)
    used = [place for place in places.values() if alone or len(place) == len(combined)]
    return [[place[each] for place in used if each in place] for each in combined]


def _mean(cells: Iterable[Place]) -> float:
    return statistics.fmean(cell["mean"] for cell, _ in cells)


def _marginal(cells: list[Place]) -> Marginal | None:
    if not cells:
        return None
    seeds = cells[0][1]
    sd = math.nan
    if len(seeds) > 1 and all(others == seeds for _, others in cells):
        by_seed = zip(*(cell["values"] for cell, _ in cells), strict=True)
        sd = statistics.stdev(statistics.fmean(values) for values in by_seed)
    return {"mean": _mean(cells), "sd": sd, "cells": len(cells)}
