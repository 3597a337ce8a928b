"""Bootstrap over seeds, p-values and Holm's correction for differences between groups of runs.

``multitask.tasks.bootstrap`` resamples the rows. One resample of a group draws rows of each dev set
and seeds, both with replacement; its value is the mean over the drawn seeds of the metric on the
drawn rows (a two-way bootstrap; Owen, "The pigeonhole bootstrap", 2007).

Limits, measured by ``benchmarks/bootstrap_coverage.py``:

- With one seed, p would reflect only the noise of the rows: there is none (``compare``).
- With several seeds the test is conservative: the noise of single runs on single rows is counted
  with the rows and again with the seeds.
- S seeds drawn from S vary less than S new seeds would, by (S - 1) / S in variance. If seeds differ
  several times more than the rows' noise, two or three seeds are too few and p is too small.
- Correlations and F1 get the same percentile intervals, without bias correction.
"""

import math
from collections.abc import Sequence

import numpy as np

from multitask.tasks.base import Array


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


def corrected(differences: Sequence[Array], p_values: Sequence[float]) -> list[float]:
    """Apply Holm's correction to comparisons, of which each has its differences [R] and its p.

    Equal differences are one comparison: cells of a probe grid share their probes. Differences that
    are all 0 are none, as both groups have the same predictions: p stays.
    """
    keys = [each.tobytes() for each in differences]
    once = {key: p for key, each, p in zip(keys, differences, p_values, strict=True) if each.any()}
    adjusted = dict(zip(once, holm([*once.values()]), strict=True))
    return [adjusted.get(key, p) for key, p in zip(keys, p_values, strict=True)]


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
