"""Ratios of standard deviations against the definition, and the coverage of their interval."""

import numpy as np
import pytest

from multitask.reporting.comparison.spread import sd_ratio


@pytest.mark.parametrize(("seeds", "factor"), [(3, 6.245), (5, 3.099)])
def test_the_interval_is_a_factor_either_way(seeds, factor):
    ours, theirs = np.random.default_rng(1).normal(size=(2, seeds)).tolist()
    ratio = sd_ratio(ours, theirs)
    assert ratio.value == pytest.approx(np.std(ours, ddof=1) / np.std(theirs, ddof=1))
    assert ratio.high / ratio.value == pytest.approx(factor, rel=1e-3)
    assert ratio.value / ratio.low == pytest.approx(factor, rel=1e-3)


def test_the_interval_contains_the_true_ratio_in_95_percent_of_samples():
    generator = np.random.default_rng(2)
    ratios = [
        sd_ratio((2 * generator.normal(size=3)).tolist(), generator.normal(size=5).tolist())
        for _ in range(1000)
    ]
    assert np.mean([ratio.low < 2 < ratio.high for ratio in ratios]) == pytest.approx(
        0.95, abs=0.02
    )


def test_both_ways_give_the_reciprocal():
    ours, theirs = [1.0, 2.0, 4.0], [1.0, 1.5, 1.7, 3.0]
    there, back = sd_ratio(ours, theirs), sd_ratio(theirs, ours)
    assert (there.low, there.high) == pytest.approx((1 / back.high, 1 / back.low))


@pytest.mark.parametrize("values", [[], [1.0], [1.0, None], [1.0, 1.0]])
def test_what_has_no_ratio(values):
    assert sd_ratio(values, [1.0, 2.0]) is None and sd_ratio([1.0, 2.0], values) is None
