"""Bootstrap over seeds, p-values and Holm's correction, against loops and worked examples."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bootstrap_coverage import false_findings
from multitask.reporting.comparison.significance import (
    corrected,
    drawn_seeds,
    holm,
    p_value,
    seed_means,
)

probabilities = st.lists(st.floats(0, 1), max_size=30)


def naive_holm(p_values):
    """Holm 1979 by the definition: the largest of the scaled p-values up to each rank."""
    ranked = sorted(p_values)
    count = len(p_values)
    return [
        min(1.0, max((count - i) * ranked[i] for i in range(ranked.index(p) + 1))) for p in p_values
    ]


def test_holm_on_an_example_worked_by_hand():
    # Sorted .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04; never below the one before: .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2] and holm([]) == []


def test_a_comparison_counts_once_and_that_of_equal_groups_not_at_all():
    first, second, none = np.array([0.1, 0.2]), np.array([-0.1, 0.3]), np.zeros(2)
    differences = [first, second, first.copy(), none, first.copy()]
    p_values = [0.01, 0.04, 0.01, 1.0, 0.01]
    assert corrected(differences, p_values) == pytest.approx([0.02, 0.04, 0.02, 1.0, 0.02])
    one_seed = corrected([first, second], [math.nan, 0.04])
    assert math.isnan(one_seed[0]) and one_seed[1] == 0.04


@given(probabilities)
def test_holm_keeps_the_order_and_never_lowers_a_p_value(p_values):
    adjusted = holm(p_values)
    assert all(raw <= new <= 1 for raw, new in zip(p_values, adjusted, strict=True))
    by_raw = [new for _, new in sorted(zip(p_values, adjusted, strict=True))]
    assert by_raw == sorted(by_raw)
    if len(set(p_values)) == len(p_values):
        assert adjusted == pytest.approx(naive_holm(p_values))
    bonferroni = [min(1.0, p * len(p_values)) for p in p_values]
    assert all(new <= worst + 1e-12 for new, worst in zip(adjusted, bonferroni, strict=True))


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 2.0, math.nan]), max_size=40))
def test_p_counts_the_resamples_on_either_side_of_zero(differences):
    known = [d for d in differences if not math.isnan(d)]
    p = p_value(np.array(differences))
    if not known:
        assert math.isnan(p)
        return
    lower = (sum(d <= 0 for d in known) + 1) / (len(known) + 1)
    upper = (sum(d >= 0 for d in known) + 1) / (len(known) + 1)
    assert p == pytest.approx(min(1.0, 2 * min(lower, upper)))
    assert p == p_value(-np.array(differences))


def test_p_of_nothing_but_gains_is_small_and_of_no_difference_is_one():
    assert p_value(np.ones(1999)) == 2 / 2000
    assert p_value(np.zeros(100)) == 1.0


def test_seed_means_equal_a_loop_and_draws_pair_by_seeds():
    values = np.random.default_rng(0).normal(size=(50, 3))
    draws = drawn_seeds([1, 2, 3], 50)
    naive = [sum(values[r, s] for s in draws[r]) / 3 for r in range(50)]
    np.testing.assert_allclose(seed_means(values, draws), naive)
    assert draws.shape == (50, 3) and set(draws.ravel()) == {0, 1, 2}
    assert (drawn_seeds([1, 2, 3], 50) == draws).all()
    assert not (drawn_seeds([4, 5, 6], 50) == draws).all()
    assert (drawn_seeds([2**62], 50) == 0).all()


def test_equal_settings_differ_in_about_a_twentieth_of_the_comparisons():
    # 200 trials: 5 % give 10 +- 3
    assert 0.02 <= false_findings(seeds=1, effect=0.0, rows=300, trials=200) <= 0.10


def test_three_seeds_of_the_usual_spread_give_no_excess_of_false_findings():
    assert false_findings(seeds=3, effect=0.01, rows=300, trials=200) <= 0.07


def test_known_limits_seeds_that_differ_far_more_than_rows_do_are_trusted_too_much():
    assert false_findings(seeds=1, effect=0.05, rows=300, trials=100) > 0.2
    assert false_findings(seeds=3, effect=0.1, rows=300, trials=100) > 0.1
