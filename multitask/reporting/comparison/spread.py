"""Compare standard deviations over seeds: their ratio, with its F interval."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Ratio(NamedTuple):
    """A ratio of standard deviations and its interval.

    Attributes:
        value: the ratio.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    value: float
    low: float
    high: float


def sd_ratio(
    values: Sequence[float | None], baseline: Sequence[float | None], confidence: float = 0.95
) -> Ratio | None:
    """Return sd(values) / sd(baseline) with the interval of the F distribution.

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
    return Ratio(ratio, ratio / float(high), ratio / float(low))
