"""The averaged output of several runs, and the gain of averaging on dev."""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import NotRequired, TypedDict

import numpy as np

from multitask.reporting.read_runs import ScoredRows, resampled_metric
from multitask.reporting.sheet import Difference
from multitask.reporting.table_formats import Table, difference, score
from multitask.store.files import without_nan
from multitask.tasks import metrics
from multitask.tasks.base import Array, TaskType
from multitask.tasks.bootstrap import percentiles


class Compared(TypedDict):
    """An ensemble next to its members, in a task or in the mean over tasks; None: undefined."""

    ensemble: float | None
    members: list[float]
    mean: float | None
    best: float | None
    best_run: str | None
    gain_over_mean: Difference
    gain_over_best: Difference
    metric: NotRequired[str]
    rows: NotRequired[int]
    dev: NotRequired[dict[str, float]]


class Gains(TypedDict):
    """The keys of ``ensemble.json``; docs/comparison-files.md describes them."""

    format: int
    runs: list[str]
    resamples: int
    confidence: float
    tasks: dict[str, Compared]
    overall: Compared
    notes: list[str]  # caveats about the runs


def average(kind: TaskType, members: Sequence[Array]) -> tuple[Array, Array]:
    """Return predictions and scores of an ensemble: the plain mean of its members' scores."""
    scores = np.stack(members).mean(axis=0, dtype=np.float64)
    return kind.decide(scores), scores


def gains(
    runs: Sequence[str],
    tasks: Mapping[str, tuple[ScoredRows, Sequence[ScoredRows]]],
    *,
    evaluate_only: Collection[str] = (),
    notes: Sequence[str] = (),
    resamples: int = 2000,
) -> Gains:
    """Compare an ensemble with its members on each task's dev rows; plain JSON values.

    A paired bootstrap over rows: each resample scores the ensemble and every member on the same
    rows. The members are fixed, and so is the one that is best on all rows. ``overall`` is the
    mean over tasks, without those that are ``evaluate_only``. docs/comparison-files.md describes
    the keys.
    """
    entries: dict[str, Compared] = {}
    columns: dict[str, tuple[list[float], Array]] = {}
    for task, (ensemble, members) in tasks.items():
        every = [ensemble, *members]
        column = ([scored.value() for scored in every], resampled_metric(task, every, resamples))
        columns[task] = column
        entries[task] = {
            "metric": ensemble.metric,
            "rows": len(ensemble.rows),
            **_compared(runs, *column),
            "dev": metrics.compute(ensemble.task_type, ensemble.columns, ensemble.reported),
        }
    counted = [columns[task] for task in tasks if task not in evaluate_only]
    scores, samples = zip(*(counted or columns.values()), strict=True)
    means = [statistics.fmean(of_tasks) for of_tasks in zip(*scores, strict=True)]
    result: Gains = without_nan(
        {
            "format": 1,
            "runs": list(runs),
            "resamples": resamples,
            "confidence": 0.95,
            "tasks": entries,
            "overall": _compared(runs, means, np.mean(samples, axis=0)),
            "notes": list(notes),
        }
    )
    return result


def _compared(runs: Sequence[str], values: Sequence[float], samples: Array) -> Compared:
    """Compare one column's ``values`` [1 + M] and ``samples`` [R, 1 + M], the ensemble first."""
    ensemble, *members = values
    mean = statistics.fmean(members)
    finite = [value for value in members if math.isfinite(value)]
    best = members.index(max(finite)) if finite else 0  # undefined, as all of them are
    return {
        "ensemble": ensemble,
        "members": members,
        "mean": mean,
        "best": members[best],
        "best_run": runs[best] if finite else None,
        "gain_over_mean": _gain(ensemble - mean, samples[:, 0] - samples[:, 1:].mean(axis=1)),
        "gain_over_best": _gain(ensemble - members[best], samples[:, 0] - samples[:, 1 + best]),
    }


def _gain(value: float, differences: Array) -> Difference:
    low, high = percentiles(differences) if math.isfinite(value) else (math.nan, math.nan)
    return {"value": value, "low": low, "high": high}


def gains_table(result: Gains) -> str:
    """Write the result of ``gains`` as a table for the terminal, with how to read it."""
    lines: dict[str, Compared] = {
        f"{task} {entry['metric']}": entry for task, entry in result["tasks"].items()
    }
    if len(lines) > 1:
        lines["mean of tasks"] = result["overall"]
    header = ("dev", "ensemble", "members' mean", "best member", "gain over mean", "gain over best")
    rows = [
        [
            name,
            score(entry["ensemble"]),
            score(entry["mean"]),
            f"{score(entry['best'])} {entry['best_run'] or ''}",
            *map(difference, (entry["gain_over_mean"], entry["gain_over_best"])),
        ]
        for name, entry in lines.items()
    ]
    return f"{Table(header, rows).text()}\n\n" + (
        f"[95 % interval]: paired bootstrap over dev rows, {result['resamples']:,} resamples. The "
        "members are fixed: other seeds may gain more or less. The best member was chosen on these "
        "rows, which flatters it."
    )
