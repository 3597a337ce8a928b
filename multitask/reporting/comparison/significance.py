"""How sure a difference between groups of runs is: bootstrap over seeds, p-values, Holm.

Numpy only. The resampling of rows is in ``multitask.tasks.metrics``. One resample of a group draws
rows of each dev set and seeds, both with replacement; its value is the mean over the drawn seeds of
the metric on the drawn rows (a two-way bootstrap; Owen, "The pigeonhole bootstrap", 2007).

Limits (measured: ``benchmarks/bootstrap_coverage.py``). With one seed nothing is known about what
another one would give: p answers for the rows only. With several, the noise of single runs on
single rows is counted with the rows and again with the seeds, so that the test is careful: it
finds too little. But S seeds drawn from S vary less than S new ones would, by (S - 1) / S in
variance: where seeds differ several times more than the rows' noise, two or three are too few and
p is too small. Correlations and F1 get the same percentile intervals, without bias correction.
"""

import math
from collections.abc import Sequence

import numpy as np

from multitask.tasks.base import Array


def drawn_seeds(seeds: Sequence[int], resamples: int) -> Array:
    """Positions drawn with replacement among S seeds, int [R, S].

    The same seeds give the same draws, so that groups with equal seeds are paired; other seeds
    give independent ones.
    """
    generator = np.random.default_rng([len(seeds), *seeds])
    return generator.integers(len(seeds), size=(resamples, len(seeds)))


def seed_means(values: Array, draws: Array) -> Array:
    """Mean over the drawn seeds of each resample: ``values`` and ``draws`` [R, S] to [R]."""
    means: Array = np.take_along_axis(values, draws, axis=1).mean(axis=1)
    return means


def p_value(differences: Array) -> float:
    """Two-sided bootstrap p of resampled differences [R]: 2 min(P(d <= 0), P(d >= 0)), at most 1.

    Each probability is (count + 1) / (R + 1), so that p is never 0. NaN differences are left out;
    NaN if none remains.
    """
    known = differences[np.isfinite(differences)]
    if not len(known):
        return math.nan
    fewer = min((known <= 0).sum(), (known >= 0).sum())
    return min(1.0, 2 * (int(fewer) + 1) / (len(known) + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction for several tests (Holm 1979): adjusted p in the given order.

    The i-th smallest of m (from 0) is multiplied by m - i, is no smaller than the one before it,
    and is at most 1.
    """
    count = len(p_values)
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values, dtype=float)[order] * (count - np.arange(count))
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(value) for value in adjusted]
