"""Score an evaluation set, average scores over tasks, and compare them.

numpy alone, never torch. The metrics are computed by the task types (``TaskType.values``).
"""

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from multitask.tasks.base import Array, Columns, NoLabels, TaskType


def compute(task_type: TaskType, columns: Columns, names: Sequence[str] = ()) -> dict[str, float]:
    """Compute the metrics ``names``; default: all of the task type.

    An undefined score is NaN, without an exception or a warning: any metric of no rows, or a
    correlation if one side is constant or not finite. Raises ValueError for a label or
    prediction outside the classes.
    """
    values = resampled_values(task_type, columns, np.arange(len(columns[0]))[None], names)
    return {name: float(value[0]) for name, value in values.items()}


def resampled_values(
    task_type: TaskType, columns: Columns, rows: Array, names: Sequence[str] = ()
) -> dict[str, Array]:
    """Compute metrics for each set of rows: ``rows`` int [R, M] -> [R] per metric.

    ``names`` are the metrics; default: all of the type. Raises ValueError if a name is not a metric
    of the type, or a label or prediction is outside the classes.
    """
    names = names or task_type.metrics
    if not set(names) <= set(task_type.metrics):
        raise ValueError(f"metrics of {task_type.name}: {task_type.metrics}, not {names}")
    return task_type.values(columns, rows, names)


def joint_tasks(task_types: Mapping[str, TaskType]) -> list[str]:
    """Return the tasks that count in the mean score; ``task_types`` is per task.

    Tasks without labels (masked tokens, contrastive) only help the others, so they count only if
    there are no others.
    """
    labelled = [
        task for task, task_type in task_types.items() if not isinstance(task_type, NoLabels)
    ]
    return labelled or list(task_types)


def joint(values: Mapping[str, float]) -> float:
    """Average over the tasks (the CS224N score of 2023); NaN if any value is NaN."""
    return statistics.fmean(values.values())


def mean_of_defined(values: Mapping[str, float]) -> float:
    """Average over the tasks with a defined score; NaN if there are none."""
    defined = {task: value for task, value in values.items() if not math.isnan(value)}
    return joint(defined) if defined else math.nan


def overall_cs224n(dev: Mapping[str, Mapping[str, float]]) -> float | None:
    """Compute the later CS224N score: the mean over tasks, with (r + 1) / 2 for the correlation r.

    ``dev`` has the dev scores of each task. None without the course's tasks sst, qqp and sts.
    """
    try:
        values = {task: dev[task]["accuracy"] for task in ("sst", "qqp")}
        return joint({**values, "sts": (dev["sts"]["pearson"] + 1) / 2})
    except KeyError:
        return None


def improves(new: float, best: float | None, min_delta: float = 0.0) -> bool:
    """Return True if ``new`` is above ``best`` by more than ``min_delta``.

    NaN never improves; any number improves on None or NaN.
    """
    if math.isnan(new):
        return False
    return best is None or math.isnan(best) or new > best + min_delta
