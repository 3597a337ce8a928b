# Tested by tests/commands/test_score.py
"""The scores of prediction files: metrics with intervals, differences, and Gradescope's JSON.

A file has predictions without probabilities, so metrics that need these (``TaskType.of_scores``)
are left out. Intervals are over rows: they do not say how much another seed would change.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypedDict

from multitask.reporting.read_runs import ScoredRows, resampled_metric
from multitask.reporting.run_report import COURSE_SCORE
from multitask.reporting.sheet import Difference, Score
from multitask.reporting.statistics import Resampled, scored_groups
from multitask.reporting.table_formats import Table, difference, estimate, score
from multitask.store.files import without_nan
from multitask.tasks.base import Columns
from multitask.tasks.bootstrap import intervals
from multitask.tasks.metrics import compute, joint, overall_cs224n

RESAMPLES = 2000  # as in a comparison of runs
NOTE = "Intervals: 95 %, over rows (bootstrap). Another seed may change a score more than that."


class MetricScore(TypedDict):
    """A metric of one file; None if undefined, or if there is no trivial baseline.

    ``differences`` has the paired difference to each of the others, by its name.
    """

    value: Score
    low: Score
    high: Score
    trivial: Score
    differences: dict[str, Difference | None]


FileScores = dict[str, dict[str, MetricScore]]  # by task and metric


def metrics_of(scored: ScoredRows) -> list[str]:
    """Return the metrics that need predictions alone: first that of the task, then the others."""
    names = [name for name in scored.reported if name not in scored.task_type.of_scores]
    return sorted(names, key=lambda name: name != scored.metric)


def metric_scores(
    task: str, scored: ScoredRows, guess: Columns | None, others: Mapping[str, ScoredRows]
) -> dict[str, MetricScore]:
    """Score one file; ``guess`` is the trivial baseline, ``others`` are what it is compared with.

    All have the same rows in the same order.
    """
    kind, names = scored.task_type, metrics_of(scored)
    values = compute(kind, scored.columns, names)
    bounds = intervals(kind, scored.columns, names)
    trivial = {} if guess is None else compute(kind, guess, names)
    result: dict[str, MetricScore] = {}
    for name in names:
        result[name] = {
            "value": values[name],
            "low": bounds[name][0],
            "high": bounds[name][1],
            "trivial": trivial.get(name, math.nan),
            "differences": {
                other: _difference(task, scored.by(name), rows.by(name))
                for other, rows in others.items()
            },
        }
    cleaned: dict[str, MetricScore] = without_nan(result)
    return cleaned


def _difference(task: str, scored: ScoredRows, other: ScoredRows) -> Difference | None:
    samples = resampled_metric(task, [scored, other], RESAMPLES)
    column: Resampled = [([scored.value()], samples[:, 0]), ([other.value()], samples[:, 1])]
    cell = scored_groups(column, [1, None])[0]
    return cell["difference"] if cell else None


def score_table(scores: FileScores) -> Table:
    """Build the table of all metrics: a row per task and metric, a column per difference."""
    entries = {
        (task, name): entry for task, metrics in scores.items() for name, entry in metrics.items()
    }
    others = dict.fromkeys(other for entry in entries.values() for other in entry["differences"])
    header = ["task", "metric", "score", "trivial", *(f"difference to {other}" for other in others)]
    rows = []
    for place, entry in entries.items():
        known = [entry["differences"].get(other) for other in others]
        cells = [difference(each) if each else "-" for each in known]
        own = estimate(entry["value"], entry["low"], entry["high"])
        rows.append([*place, own, score(entry["trivial"]), *cells])
    return Table(header, rows)


def overall_scores(scores: FileScores) -> dict[str, float]:
    """Return the mean over several tasks, and the score of CS224N; without undefined ones."""
    first = {task: next(iter(metrics.values()))["value"] for task, metrics in scores.items()}
    overall = {}
    if len(first) > 1 and None not in first.values():
        overall["mean"] = joint(first)
    values = {
        task: {name: entry["value"] for name, entry in metrics.items()}
        for task, metrics in scores.items()
    }
    if {"sst", "qqp", "sts"} <= {*values} and None not in first.values():
        course = overall_cs224n(values)
        overall |= {} if course is None else {"CS224N overall": course}
    return overall


def overall_lines(overall: Mapping[str, float]) -> list[str]:
    """Describe ``overall_scores``, a line each."""
    meaning = {"mean": "mean of the tasks' first metrics", "CS224N overall": COURSE_SCORE}
    return [f"{name}: {score(value)} ({meaning[name]})" for name, value in overall.items()]


def gradescope(
    scores: FileScores, sources: Mapping[str, str], errors: Sequence[str] = ()
) -> dict[str, object]:
    """Return the content of Gradescope's ``results.json``.

    Each task is a test of one point, whose score is that of the first metric, at least 0. Each
    error is a failed test. The leaderboard has these metrics and the overall scores.
    """

    def test(name: str, points: float, status: str, output: str) -> dict[str, object]:
        return {
            "name": name,
            "score": points,
            "max_score": 1.0,
            "status": status,
            "output": output,
        }

    tests, board = [], {}
    for task, metrics in scores.items():
        name, entry = next(iter(metrics.items()))
        value = board[f"{task} {name}"] = entry["value"]
        output = f"{sources[task]}\n{score_table({task: metrics}).text()}"
        tests.append(test(f"{task} {name}", max(0.0, value or 0.0), "passed", output))
    tests += [test("predictions", 0.0, "failed", error) for error in errors]
    board |= overall_scores(scores)
    leaderboard = [{"name": name, "value": value} for name, value in board.items()]
    return {"output": NOTE, "tests": tests, "leaderboard": leaderboard}
