"""Bootstrap over seeds, p-values, Holm's correction, and ratios of standard deviations.

``multitask.tasks.bootstrap`` resamples the rows. One resample of a group draws rows of each dev set
and seeds, both with replacement; its value is the mean over the drawn seeds of the metric on the
drawn rows (a two-way bootstrap; Owen, "The pigeonhole bootstrap", 2007).

Limits, measured by ``benchmarks/bootstrap_coverage.py``:

- With one seed, p would reflect only the noise of the rows: there is none (``scored_groups``).
- With several seeds the test is conservative: the noise of single runs on single rows is counted
  with the rows and again with the seeds.
- S seeds drawn from S vary less than S new seeds would, by (S - 1) / S in variance. If seeds differ
  several times more than the rows' noise, two or three seeds are too few and p is too small.
- Correlations and F1 get the same percentile intervals, without bias correction.
"""

import math
import statistics
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from multitask.config.registry import task_type
from multitask.reporting.read_runs import (
    ScoredRows,
    check_same_rows,
    load_split,
    resampled_metric,
)
from multitask.reporting.sheet import MEAN, Cell, Cells, Difference, best_of
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import RunReport
from multitask.tasks.base import Array
from multitask.tasks.bootstrap import percentiles
from multitask.tasks.metrics import joint_tasks
from multitask.utils.errors import UserError


def drawn_seeds(seeds: Sequence[int], resamples: int) -> Array:
    """Draw positions with replacement among S seeds, int [R, S].

    The same seeds give the same draws, so that groups with equal seeds are paired. Other seeds give
    independent draws.
    """
    generator = np.random.default_rng([len(seeds), *seeds])
    return generator.integers(len(seeds), size=(resamples, len(seeds)))


def seed_means(values: Array, draws: Array) -> Array:
    """Average over the drawn seeds of each resample: ``values`` and ``draws`` [R, S] -> [R]."""
    means: Array = np.take_along_axis(values, draws, axis=1).mean(axis=1)
    return means


def p_value(differences: Array) -> float:
    """Return the two-sided bootstrap p of differences [R]: 2 min(P(d <= 0), P(d >= 0)), at most 1.

    Each probability is (count + 1) / (R + 1), so that p is never 0. NaN differences are ignored;
    the result is NaN if there is no other.
    """
    finite = differences[np.isfinite(differences)]
    if not len(finite):
        return math.nan
    fewer = min((finite <= 0).sum(), (finite >= 0).sum())
    return min(1.0, 2 * (int(fewer) + 1) / (len(finite) + 1))


def difference_of(value: float, resampled: Array, *, tested: bool) -> Difference:
    """Return a difference with the interval of its resamples [R]; p is NaN unless ``tested``."""
    low, high = percentiles(resampled)
    return {
        "value": value,
        "low": low,
        "high": high,
        "p": p_value(resampled) if tested else math.nan,
    }


def correct(compared: Sequence[tuple[Difference, Array]]) -> None:
    """Apply Holm's correction to differences, each with its resamples [R]: set ``p_holm``.

    Equal resamples are one comparison: cells of a probe grid share their probes. Those that are all
    0 are none, as both groups have the same predictions: p stays.
    """
    once = {samples.tobytes(): each["p"] for each, samples in compared if samples.any()}
    adjusted = dict(zip(once, holm([*once.values()]), strict=True))
    for difference, samples in compared:
        difference["p_holm"] = adjusted.get(samples.tobytes(), difference["p"])


def holm(p_values: Sequence[float]) -> list[float]:
    """Apply Holm's step-down correction (Holm 1979); adjusted p-values keep the given order.

    The i-th smallest of m (from 0) is multiplied by m - i; it is at least the one before it and at
    most 1. NaN stays NaN and does not count.
    """
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(p), math.nan)
    order = np.argsort(p, kind="stable")[: np.isfinite(p).sum()]
    scaled = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted.tolist()


def sd_ratio(
    values: Sequence[float | None], baseline: Sequence[float | None], confidence: float = 0.95
) -> tuple[float, float, float] | None:
    """Return sd(values) / sd(baseline) and both ends of its interval of the F distribution.

    It holds for independent seeds with normally distributed scores. Three seeds each give a factor
    of 6.2 either way, five 3.1. None with fewer than two seeds, an undefined score, or a standard
    deviation of 0.
    """
    from scipy.stats import f

    pair = []
    for scores in (values, baseline):
        defined = [score for score in scores if score is not None]
        if len(defined) < 2 or len(defined) < len(scores):
            return None
        pair.append((statistics.stdev(defined), len(defined) - 1))
    (ours, freedom), (theirs, baseline_freedom) = pair
    if not ours or not theirs:
        return None
    tail = (1 - confidence) / 2
    low, high = (f.ppf(share, freedom, baseline_freedom) ** 0.5 for share in (tail, 1 - tail))
    ratio = ours / theirs
    return ratio, ratio / float(high), ratio / float(low)


def holdout_scores(run: Path, objectives: Sequence[str] = ()) -> list[float]:
    """Return a finished run's score on its holdout; NaN if undefined.

    This is the mean over the trained tasks, or the score of each of ``objectives``. Raises
    UserError if the run has no such score, or a file is damaged.
    """
    report = RunDirectory(run).load_report()
    trained = {
        name: task_type(entry.label_type)
        for name, entry in report.tasks.items()
        if not entry.evaluate_only
    }
    (cells,), _ = held_out([[(run, report)]], joint_tasks(trained))
    wanted = objectives or [MEAN]
    if not set(wanted) <= set(cells):
        raise UserError(f"{run}: no scores on held-out rows: set `training.holdout`, such as 0.1")
    return [cells[name]["mean"] for name in wanted]


def over_seeds(values: list[float]) -> Cell:
    """Return the scores of a row's seeds, their mean and standard deviation; NaN if undefined."""
    mean = statistics.fmean(values)
    several = len(values) > 1 and math.isfinite(mean)
    return {"values": values, "mean": mean, "sd": statistics.stdev(values) if several else math.nan}


# one column of the table: per group its score for each seed and its resampled means [R]; None for
# a group without the column
Resampled = list[tuple[list[float], Array] | None]
Runs = list[tuple[Path, RunReport]]  # the runs of a group with their report.json


def read_split(task: str, reports: Sequence[Runs], split: str) -> list[list[ScoredRows]]:
    """Read each group's predictions of a split.

    A group without the task has none, and so has one whose runs do not all have held-out rows.
    """
    sets = []
    for runs in reports:
        entries = [(run, report.tasks[task]) for run, report in runs if task in report.tasks]
        if split != "dev":  # a missing file of dev is an error
            files = [RunDirectory(run).predictions_of(task, split) for run, _ in entries]
            entries = entries if all(file.is_file() for file in files) else []
        sets.append([load_split(run, task, split, entry) for run, entry in entries])
    return sets


def task_column(
    task: str,
    reports: Sequence[Runs],
    sets: Sequence[Sequence[ScoredRows]],
    resamples: int,
    *,
    split: str,
) -> Resampled:
    """Return each group's score per seed on a split, and its resampled means over seeds.

    ``sets`` are from ``read_split``. Raises UserError if groups were scored on other rows, or by
    another metric.
    """
    every = [run for scored in sets for run in scored]
    for other in every[1:]:
        check_same_rows(task, every[0], other, split)
    if not every:
        return [None] * len(sets)
    ends = np.cumsum([len(scored) for scored in sets])
    parts = np.split(resampled_metric(task, every, resamples), ends[:-1], axis=1)
    column: Resampled = []
    for values, scored, runs in zip(parts, sets, reports, strict=True):
        if not scored:
            column.append(None)
            continue
        scores = [rows.value() for rows in scored]
        if split == "dev":  # as reported: saved predictions have nine digits
            pairs = zip(runs, scored, strict=True)
            reported = [report.tasks[task].dev.get(rows.metric) for (_, report), rows in pairs]
            scores = np.array(reported, dtype=float).tolist()
        draws = drawn_seeds([report.seed for _, report in runs], resamples)
        column.append((scores, seed_means(values, draws)))
    return column


def held_out(
    reports: Sequence[Runs], counted: Collection[str], resamples: int = 0
) -> tuple[list[Cells], dict[str, Resampled]]:
    """Return each group's cells on the held-out rows, which the selected weights predicted.

    A mean over the tasks in ``counted`` is absent if the group lacks one of them. With
    ``resamples``, the columns of these scores too; a task whose groups hold out other rows has no
    column. Raises UserError if a file of predictions is damaged.
    """
    cells: list[Cells] = [{} for _ in reports]
    columns: dict[str, Resampled] = {}
    for task in every_task(reports):
        sets = read_split(task, reports, "holdout")
        for of_group, scored in zip(cells, sets, strict=True):
            if scored:
                of_group[task] = over_seeds([rows.value() for rows in scored])
        if resamples:
            with suppress(UserError):
                columns[task] = task_column(task, reports, sets, resamples, split="holdout")
    for of_group in cells:
        if counted and {*counted} <= {*of_group}:
            by_seed = zip(*(of_group[task]["values"] for task in counted), strict=True)
            of_group[MEAN] = over_seeds([statistics.fmean(scores) for scores in by_seed])
    if counted and {*counted} <= {*columns}:
        columns[MEAN] = mean_column([columns[task] for task in counted])
    return cells, columns


def every_task(reports: Sequence[Runs]) -> list[str]:
    """Return the tasks of all groups."""
    return list(dict.fromkeys(task for runs in reports for task in runs[0][1].tasks))


def mean_column(columns: list[Resampled]) -> Resampled:
    """Average the columns, for the groups that have all of them."""
    overall: Resampled = []
    for entries in zip(*columns, strict=True):
        present = [entry for entry in entries if entry is not None]
        if len(present) < len(entries):
            overall.append(None)
            continue
        by_seed = zip(*(scores for scores, _ in present), strict=True)
        means = [statistics.fmean(scores) for scores in by_seed]
        overall.append((means, np.mean([samples for _, samples in present], axis=0)))
    return overall


def scored_groups(column: Resampled, baselines: Sequence[int | None]) -> list[Cell | None]:
    """Return each group's cell of one column; NaN for an undefined score.

    ``baselines`` are the places of the groups that they are compared with. A difference has a p
    only if both groups have several seeds: one seed says nothing about another (docs/comparing.md
    measures how often its p would be wrong). Holm's correction is over those with one baseline.
    """
    entries: list[Cell | None] = []
    for entry in column:
        cell = over_seeds(entry[0]) if entry else None
        if cell and entry:
            known = math.isfinite(cell["mean"])
            cell["low"], cell["high"] = percentiles(entry[1]) if known else (math.nan, math.nan)
        entries.append(cell)
    best = best_of([e["mean"] for e in entries if e and math.isfinite(e["mean"])])
    compared: dict[int, list[tuple[Difference, Array]]] = {}
    for each, entry, at in zip(entries, column, baselines, strict=True):
        if each is None or entry is None:
            continue
        each["best"], each["difference"] = each["mean"] == best, None
        base, against = (None, None) if at is None else (entries[at], column[at])
        if at is None or base is None or against is None:
            continue
        value = each["mean"] - base["mean"]
        if math.isfinite(value):
            resampled = entry[1] - against[1]
            several = min(len(entry[0]), len(against[0])) > 1
            difference = each["difference"] = difference_of(value, resampled, tested=several)
            compared.setdefault(at, []).append((difference, resampled))
    for pairs in compared.values():
        correct(pairs)
    return entries
