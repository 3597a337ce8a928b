"""Compare finished runs: scores over seeds, differences to a baseline, their intervals.

Reads saved files only (``report.json``, ``config.yaml``, ``predictions/TASK.dev.jsonl``).
docs/comparing.md describes the keys of a comparison; ``significance.py`` explains the statistics
and their limits.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config.run_directory import RunDirectory
from multitask.config.saved.report_model import RunReport
from multitask.reporting.comparison import amounts, score_tables
from multitask.reporting.comparison.comparison_figures import draw_all
from multitask.reporting.comparison.comparison_json import (
    Axis,
    ComparedTask,
    Comparison,
    Difference,
    Scores,
    Trained,
)
from multitask.reporting.comparison.comparison_page import comparison_page
from multitask.reporting.comparison.grid_axes import marginals
from multitask.reporting.comparison.groups import Group, group_runs, run_config
from multitask.reporting.comparison.holdout import held_out, over_seeds
from multitask.reporting.comparison.notes import notes
from multitask.reporting.comparison.replaced_files import FACTS, check_comparison
from multitask.reporting.comparison.saved_predictions import (
    ScoredRows,
    check_same_rows,
    load_split,
    resampled_metric,
)
from multitask.reporting.comparison.score_tables import best_of
from multitask.reporting.comparison.settings import differing_settings
from multitask.reporting.comparison.significance import corrected, drawn_seeds, p_value, seed_means
from multitask.reporting.comparison.times import training_times
from multitask.reporting.comparison.transfer import transfer
from multitask.reporting.comparison.verdicts import comparison_verdicts
from multitask.reporting.html_page import write_html
from multitask.tasks.base import Array, TaskType
from multitask.tasks.bootstrap import percentiles
from multitask.tasks.metrics import joint_tasks
from multitask.utils.errors import UserError, suggest
from multitask.utils.files import remove_scraps, without_nan, write_text

__all__ = ["Group", "compare", "group_runs", "transfer", "write_comparison"]

# one column of the table: per group its score for each seed and its resampled means [R]; None for
# a group without the column
Column = list[tuple[list[float], Array] | None]
Runs = list[tuple[Path, RunReport]]  # the runs of a group with their report.json


def compare(
    groups: list[Group],
    baseline: str,
    *,
    axes: Sequence[Axis] = (),
    metrics: Mapping[str, str] | None = None,
    margin: float | None = None,
    resamples: int = 2000,
) -> Comparison:
    """Compare each group with the group named ``baseline``; plain JSON values.

    The same input gives the same numbers. ``axes`` are those of a grid, each with its ``key``,
    ``labels`` and ``values``. With ``metrics`` only these tasks are compared, each by the named
    metric instead of the task's. Differences within ``margin`` are called equal.

    Raises:
        UserError: no such group, a run without a report, trials among other runs, or runs that
            were not scored on the same rows by the same metric.
    """
    names = [group.name for group in groups]
    if baseline not in names:
        raise UserError(f"no group is called {baseline!r}{suggest(baseline, names)}")
    at = names.index(baseline)
    reports = [_reports(group, metrics) for group in groups]
    _check_trials([run for runs in reports for run in runs])
    tasks, columns, counted = _columns(reports, resamples)
    scored = {task: _scored(column, at) for task, column in columns.items()}
    means = _overall([columns[task] for task in counted])
    overall = _scored(means, at) if counted else [None] * len(groups)
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
                "seeds": _seeds(runs),
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
    return _with_verdicts(without_nan(comparison))


def _with_verdicts(comparison: Comparison) -> Comparison:
    return {**comparison, "verdicts": comparison_verdicts(comparison)}


def write_comparison(directory: Path, comparison: Comparison) -> list[Path]:
    """Write comparison.json, table.md, .csv and .tex, the figures and report.html.

    Returns their paths. Raises UserError for a damaged log of a run, and for a file of others.
    """
    check_comparison(directory)
    directory.mkdir(parents=True, exist_ok=True)
    remove_scraps(directory)
    texts = {
        FACTS: json.dumps(comparison, indent=1, ensure_ascii=False) + "\n",
        "table.md": score_tables.markdown_text(comparison),
        "table.csv": score_tables.csv_text(comparison),
        "table.tex": score_tables.latex_text(comparison),
    }
    for name, text in texts.items():
        write_text(directory / name, text)
    figures = draw_all(directory, comparison)
    page = directory / "report.html"
    write_html(comparison_page(directory, comparison), page)
    return [*(directory / name for name in texts), *figures, page]


def _trained(config: Mapping[str, Any], reports: Sequence[RunReport]) -> Trained:
    """Return the counts of a group's training; a probe trains its heads apart, so it has none."""
    probe = reports[0].probe
    return {
        "trained_parameters": reports[0].trained_parameters,
        "updates": None if probe else amounts.updates(reports),
        "trained_rows": None if probe else amounts.trained_rows(config, reports),
        "untrained": [
            task for task, entry in reports[0].tasks.items() if not (probe or entry.turns.trained)
        ],
    }


def _seeds(runs: Runs) -> list[int]:
    return [report.seed for _, report in runs]


def _reports(group: Group, metrics: Mapping[str, str] | None) -> Runs:
    """Return the runs of a group with their reports by seed; ``metrics`` as in ``compare``."""
    runs = [(run, RunDirectory(run).load_report()) for run in group.runs]
    first, tasks = runs[0][0], set(runs[0][1].tasks)
    for run, report in runs[1:]:
        if set(report.tasks) != tasks:
            raise UserError(f"{first} and {run} are not seeds of one setting: their tasks differ")
        if report.probe != runs[0][1].probe:
            raise UserError(f"{first} and {run} are not seeds of one setting: one is a probe")
    if metrics is not None:
        runs = [(run, _measured_by(metrics, report)) for run, report in runs]
    return sorted(runs, key=lambda run: run[1].seed)


def _check_trials(runs: Runs) -> None:
    """Raise UserError if some runs are trials and others are not."""
    kinds = {report.trial: run for run, report in runs}
    if len(kinds) > 1:
        message = "compare trials only with trials: leave one of the two out"
        raise UserError(f"{kinds[True]} is a trial (--try), {kinds[False]} is none: {message}")


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


def _columns(
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
        columns[task] = _task_column(task, sets, reports, resamples)
    return tasks, columns, joint_tasks(trained)


def _task_column(
    task: str, sets: list[list[ScoredRows]], reports: list[Runs], resamples: int
) -> Column:
    """Return each group's reported score per seed, and its resampled means over seeds."""
    every = [run for scored in sets for run in scored]
    for other in every[1:]:
        check_same_rows(task, every[0], other)
    ends = np.cumsum([len(scored) for scored in sets])
    parts = np.split(resampled_metric(task, every, resamples), ends[:-1], axis=1)
    column: Column = []
    for values, runs in zip(parts, reports, strict=True):
        if not values.shape[1]:
            column.append(None)
            continue
        entries = [report.tasks[task] for _, report in runs]
        scores = np.array([entry.score for entry in entries], dtype=float)
        draws = drawn_seeds(_seeds(runs), resamples)
        column.append((scores.tolist(), seed_means(values, draws)))
    return column


def _overall(columns: list[Column]) -> Column:
    """Average the columns, for the groups that have all of them."""
    overall: Column = []
    for entries in zip(*columns, strict=True):
        present = [entry for entry in entries if entry is not None]
        if len(present) < len(entries):
            overall.append(None)
            continue
        by_seed = zip(*(scores for scores, _ in present), strict=True)
        means = [statistics.fmean(scores) for scores in by_seed]
        overall.append((means, np.mean([samples for _, samples in present], axis=0)))
    return overall


def _scored(column: Column, baseline: int) -> list[Scores | None]:
    """Return each group's entry of one column; NaN for an undefined score.

    A difference has a p only if both groups have several seeds: one seed says nothing about another
    (docs/comparing.md measures how often its p would be wrong).
    """
    entries = [None if entry is None else _summary(*entry) for entry in column]
    best = best_of([e["mean"] for e in entries if e and math.isfinite(e["mean"])])
    base, against = entries[baseline], column[baseline]
    compared: list[tuple[Difference, Array]] = []
    for each, entry in zip(entries, column, strict=True):
        if each is None or entry is None:
            continue
        each["best"], each["difference"] = each["mean"] == best, None
        if each is base or base is None or against is None:
            continue
        value = each["mean"] - base["mean"]
        if math.isfinite(value):
            differences = entry[1] - against[1]
            low, high = percentiles(differences)
            several = min(len(entry[0]), len(against[0])) > 1
            p = p_value(differences) if several else math.nan
            difference: Difference = {"value": value, "low": low, "high": high, "p": p}
            each["difference"] = difference
            compared.append((difference, differences))
    ps = corrected([samples for _, samples in compared], [each["p"] for each, _ in compared])
    for (difference, _), p in zip(compared, ps, strict=True):
        difference["p_holm"] = p
    return entries


def _summary(scores: list[float], samples: Array) -> Scores:
    """Return mean, standard deviation and interval of a group's score; NaN if one seed has NaN."""
    summary = over_seeds(scores)
    low, high = percentiles(samples) if math.isfinite(summary["mean"]) else (math.nan, math.nan)
    return {**summary, "low": low, "high": high}
