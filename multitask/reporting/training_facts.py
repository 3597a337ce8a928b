"""How the runs behind a row or a cell of a sheet were trained."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from multitask.reporting.sheet import Facts
from multitask.store.saved import RunReport


def row_facts(config: Mapping[str, Any], reports: Sequence[RunReport]) -> Facts:
    """Return the facts of runs, one per seed; a probe trains its heads apart, so it has no counts.

    ``config`` is the runs' resolved config.
    """
    tasks = list(reports[0].tasks)
    counts = _counts(config, reports, tasks, tasks)
    return {"trained_parameters": reports[0].trained_parameters, **counts}


def cell_facts(config: Mapping[str, Any], reports: Sequence[RunReport], task: str) -> Facts:
    """Return the facts of runs that are scored on a task.

    If it was only scored, the rows and epochs are those of the tasks that were trained.
    """
    first = reports[0]
    trained = trained_tasks(first, task)
    splits = [first.tasks[name].data.get("train") for name in trained]
    held = config.get("training", {}).get("holdout")
    return {
        "encoder": config.get("encoder", {}).get("name"),
        "epochs": _epochs(config, trained),
        "all_rows": not (held or any(_is_cut(config, first, name) for name in trained)),
        "train_rows": sum(split.rows for split in splits if split) if any(splits) else None,
        **_counts(config, reports, [task], trained),
        "dev_seconds": median_of([report.dev_seconds.get(task) for report in reports]),
    }


def _counts(
    config: Mapping[str, Any], reports: Sequence[RunReport], scored: list[str], trained: list[str]
) -> Facts:
    """Return how much runs trained the tasks ``trained``, and those of ``scored`` they did not."""
    first = reports[0]
    rows = [_rows_of_steps(config, report, trained) for report in reports]
    return {
        "updates": None if first.probe else mean_count([report.steps.done for report in reports]),
        "trained_rows": None if first.probe else mean_count(rows),
        "untrained": [t for t in scored if not (first.probe or first.tasks[t].turns.trained)],
        "epoch_seconds": median_of([report.epoch_seconds for report in reports]),
    }


def mean_count(counts: Sequence[int]) -> int | None:
    """Return the mean over seeds; None if a report lacks the count."""
    return None if 0 in counts else round(statistics.fmean(counts))


def _rows_of_steps(config: Mapping[str, Any], report: RunReport, tasks: Sequence[str]) -> int:
    """Return the rows of all steps of ``tasks``; 0 if they are unknown.

    A step of a task has ``batch_size`` x ``accumulation`` rows, as ``check`` prints. A row that
    several tasks train on counts for each of them.
    """
    rows = 0
    for task in tasks:
        entry, turns = config["tasks"].get(task, {}), report.tasks[task].turns.trained
        rows += turns * int(entry.get("batch_size", 0)) * int(entry.get("accumulation", 1))
    return rows


def median_of(values: Sequence[float | None]) -> float | None:
    """Return the median; None if a value is missing."""
    present = [value for value in values if value is not None]
    return float(statistics.median(present)) if len(present) == len(values) else None


def trained_tasks(report: RunReport, task: str) -> list[str]:
    """Return the task, or the tasks that were trained if it was only scored."""
    if report.tasks[task].turns.trained:
        return [task]
    return [name for name, entry in report.tasks.items() if entry.turns.trained] or [task]


def _epochs(config: Mapping[str, Any], trained: Sequence[str]) -> int | None:
    """Add the epochs of the stages that train some of the tasks.

    Returns None if they are unknown, or if `max_steps` may have ended one of these stages early.
    """
    training = config.get("training", {})
    every = config.get("stages") or [{}]
    stages = [entry for entry in every if set(trained) & set(entry.get("tasks") or trained)]
    epochs = [entry.get("epochs") or training.get("epochs") for entry in stages]
    bounded = any(entry.get("max_steps") for entry in (training, *stages))
    return None if bounded or not epochs or None in epochs else sum(epochs)


def _is_cut(config: Mapping[str, Any], report: RunReport, task: str) -> bool:
    """Return True if `max_rows` or `dev_share` took training rows away from a task.

    A `max_rows` larger than the rows there are takes none away. Where a task trains on the rows or
    texts of others, the keys of those count too.
    """
    tasks = config.get("tasks", {})
    data = tasks.get(task, {}).get("data") or {}
    for name in (task, data.get("same_rows_as"), *(data.get("texts_of") or [])):
        entry = tasks.get(name, {})
        train = report.tasks[name].data.get("train") if name in report.tasks else None
        most = entry.get("max_rows")
        if most and (train is None or train.rows >= most):
            return True
        if (entry.get("data") or {}).get("dev_share"):
            return True
    return False
