"""Bootstrap: resample rows with replacement, and compute intervals of metrics."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from multitask.tasks.base import Array, Columns, TaskType
from multitask.tasks.metrics import compute, resampled_values

# Limits of one chunk of resamples, to bound memory with many rows or many classes.
CHUNK_ROWS = 1_000_000
CHUNK_RESAMPLES = 100


def intervals(
    task_type: TaskType,
    columns: Columns,
    names: Sequence[str] = (),
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Return the 95 % percentile bootstrap interval (low, high) over rows, for each metric.

    ``names`` are the metrics; default: all of the type.

    Resamples in which a metric is NaN are ignored. A metric that is undefined on the original rows
    has the interval (NaN, NaN).
    """
    points = compute(task_type, columns, names)
    chunks = [
        resampled_values(task_type, columns, rows, names)
        for rows in resampled_rows(len(columns[0]), resamples, seed)
    ]
    bounds = {}
    for name, point in points.items():
        values = np.concatenate([chunk[name] for chunk in chunks])
        bounds[name] = percentiles(values) if math.isfinite(point) else (math.nan, math.nan)
    return bounds


def percentiles(resampled: Array) -> tuple[float, float]:
    """Return the 95 % percentile interval of resampled values [R]; NaN is ignored."""
    finite = resampled[np.isfinite(resampled)]
    if not len(finite):
        return math.nan, math.nan
    low, high = np.percentile(finite, (2.5, 97.5))
    return float(low), float(high)


def resampled_rows(n: int, resamples: int, seed: int | Sequence[int]) -> Iterator[Array]:
    """Draw ``resamples`` sets of row indices with replacement; yield them in chunks [R, n]."""
    generator = np.random.default_rng(seed)
    step = max(1, min(CHUNK_RESAMPLES, CHUNK_ROWS // max(n, 1)))
    for start in range(0, resamples, step):
        # Without rows the upper bound must still be positive.
        yield generator.integers(max(n, 1), size=(min(step, resamples - start), n))
