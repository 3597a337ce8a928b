"""Scores on the held-out rows of train, by which settings are chosen so that dev stays unseen."""

import math
import statistics
from collections.abc import Collection, Sequence
from pathlib import Path

from multitask.config.registry import task_type
from multitask.config.run_directory import RunDirectory
from multitask.config.saved.report_model import RunReport
from multitask.reporting.comparison.comparison_json import Columns, Scores
from multitask.reporting.comparison.saved_predictions import load_split
from multitask.tasks.metrics import joint_tasks
from multitask.utils.errors import UserError


def held_out(runs: Sequence[tuple[Path, RunReport]], counted: Collection[str]) -> Columns | None:
    """Return a group's ``tasks.NAME`` and ``overall``, each with ``mean`` and ``sd`` over seeds.

    Scores come from ``predictions/TASK.holdout.jsonl``, which the selected weights predicted.
    ``overall`` is the mean over the tasks in ``counted``; None if the group lacks one of them.

    Returns None if a run has no holdout. Raises UserError if a file is damaged.
    """
    values: dict[str, list[float]] = {}
    for run, report in runs:
        for task, entry in report.tasks.items():
            if RunDirectory(run).predictions_of(task, "holdout").is_file():
                score = load_split(run, task, "holdout", entry).value()
                values.setdefault(task, []).append(score)
    complete = {task: scores for task, scores in values.items() if len(scores) == len(runs)}
    if not complete:
        return None
    overall = None
    if counted and set(counted) <= set(complete):
        by_seed = zip(*(complete[task] for task in counted), strict=True)
        overall = over_seeds([statistics.fmean(scores) for scores in by_seed])
    return {
        "tasks": {task: over_seeds(scores) for task, scores in complete.items()},
        "overall": overall,
    }


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
    scores = held_out([(run, report)], joint_tasks(trained))
    columns: list[Scores | None] = [None]
    if scores:
        columns = [scores["tasks"].get(name) for name in objectives] or [scores["overall"]]
    if not all(columns):
        raise UserError(f"{run}: no scores on held-out rows: set `training.holdout`, such as 0.1")
    means = [column["mean"] for column in columns if column]
    return [math.nan if mean is None else mean for mean in means]


def over_seeds(values: list[float]) -> Scores:
    """Return the scores of a group's seeds, their mean and standard deviation; NaN if undefined."""
    mean = statistics.fmean(values)
    several = len(values) > 1 and math.isfinite(mean)
    return {"values": values, "mean": mean, "sd": statistics.stdev(values) if several else math.nan}
