"""Scores of a whole evaluation set, and how scores are joined and compared.

numpy alone, never torch. The metrics themselves are those of a task type (``TaskType.values``).
"""

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from multitask.tasks.base import Array, Columns, TaskType

CORRELATIONS = ("pearson", "spearman")


def compute(task_type: TaskType, columns: Columns) -> dict[str, float]:
    """Every metric of a task type over the whole set.

    An undefined score is NaN, never an exception and never a warning: any metric of no rows, a
    correlation where one side is constant or not finite. Raises ValueError for a label or
    prediction outside the classes.
    """
    values = resampled_values(task_type, columns, np.arange(len(columns[0]))[None])
    return {name: float(value[0]) for name, value in values.items()}


def resampled_values(
    task_type: TaskType, columns: Columns, rows: Array, names: Sequence[str] = ()
) -> dict[str, Array]:
    """Metrics of each set of rows: ``rows`` is int [R, M], each value is [R].

    All metrics of the type, or those in ``names``. Raises ValueError for a name that is no metric
    of the type, and as ``compute`` does.
    """
    names = names or task_type.metrics
    if not set(names) <= set(task_type.metrics):
        raise ValueError(f"metrics of {task_type.name}: {task_type.metrics}, not {names}")
    return task_type.values(columns, rows, names)


def joint_tasks(task_types: Mapping[str, TaskType]) -> list[str]:
    """The tasks whose mean counts; ``task_types`` by task.

    Tasks without labels (masked tokens, contrastive) serve the others: they do not count unless
    they are alone.
    """
    labelled = [task for task, task_type in task_types.items() if task_type.labelled]
    return labelled or list(task_types)


def joint(values: Mapping[str, float]) -> float:
    """Plain mean over the tasks (the CS224N score of 2023); NaN if any value is NaN."""
    return statistics.fmean(values.values())


def mean_of_defined(values: Mapping[str, float]) -> float:
    """Plain mean over the tasks whose score is defined; NaN if none is."""
    defined = {task: value for task, value in values.items() if not math.isnan(value)}
    return joint(defined) if defined else math.nan


def overall_cs224n(values: Mapping[str, float], metrics: Mapping[str, str]) -> float:
    """The later CS224N score: the mean with a correlation r entered as (r + 1) / 2.

    ``values`` and ``metrics`` map each task to its score and to its metric's name.
    """
    return joint(
        {
            task: (value + 1) / 2 if metrics[task] in CORRELATIONS else value
            for task, value in values.items()
        }
    )


def improves(new: float, best: float | None, min_delta: float = 0.0) -> bool:
    """Whether ``new`` is above ``best`` by more than ``min_delta``.

    NaN never is; any number improves on None or NaN.
    """
    if math.isnan(new):
        return False
    return best is None or math.isnan(best) or new > best + min_delta
