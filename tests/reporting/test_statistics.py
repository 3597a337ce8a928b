"""Bootstrap, Holm, ratios of deviations, and scores over seeds, against plain loops and scipy."""

import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score

from benchmarks.bootstrap_coverage import false_findings
from multitask.reporting import sheet_tables
from multitask.reporting.compare import compare
from multitask.reporting.read_runs import Group
from multitask.reporting.sheet import MEAN
from multitask.reporting.statistics import (
    correct,
    drawn_seeds,
    holdout_scores,
    holm,
    p_value,
    sd_ratio,
    seed_means,
)
from multitask.store.run_directory import load_lines
from multitask.utils.errors import UserError
from tests.support.fabricated_run import write_run

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


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ([0.01, 0.04, 0.01, 1.0, 0.01], [0.02, 0.04, 0.02, 1.0, 0.02]),
        ([math.nan, 0.04], [math.nan, 0.04]),  # one seed
    ],
)
def test_a_comparison_counts_once_and_that_of_equal_groups_not_at_all(p_values, expected):
    first, second, none = np.array([0.1, 0.2]), np.array([-0.1, 0.3]), np.zeros(2)
    resampled = [first, second, first.copy(), none, first.copy()]
    compared = [({"p": p}, samples) for p, samples in zip(p_values, resampled, strict=False)]
    correct(compared)
    assert [each["p_holm"] for each, _ in compared] == pytest.approx(expected, nan_ok=True)


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


@pytest.mark.parametrize(("seeds", "factor"), [(3, 6.245), (5, 3.099)])
def test_the_interval_is_a_factor_either_way(seeds, factor):
    ours, theirs = np.random.default_rng(1).normal(size=(2, seeds)).tolist()
    value, low, high = sd_ratio(ours, theirs)
    assert value == pytest.approx(np.std(ours, ddof=1) / np.std(theirs, ddof=1))
    assert high / value == pytest.approx(factor, rel=1e-3)
    assert value / low == pytest.approx(factor, rel=1e-3)


def test_the_interval_contains_the_true_ratio_in_95_percent_of_samples():
    generator = np.random.default_rng(2)
    ratios = [
        sd_ratio((2 * generator.normal(size=3)).tolist(), generator.normal(size=5).tolist())
        for _ in range(1000)
    ]
    assert np.mean([low < 2 < high for _, low, high in ratios]) == pytest.approx(0.95, abs=0.02)


def test_both_ways_give_the_reciprocal():
    ours, theirs = [1.0, 2.0, 4.0], [1.0, 1.5, 1.7, 3.0]
    there, back = sd_ratio(ours, theirs), sd_ratio(theirs, ours)
    assert there[1:] == pytest.approx((1 / back[2], 1 / back[1]))


@pytest.mark.parametrize("values", [[], [1.0], [1.0, None], [1.0, 1.0]])
def test_what_has_no_ratio(values):
    assert sd_ratio(values, [1.0, 2.0]) is None and sd_ratio([1.0, 2.0], values) is None


def hold_out(run):
    """Every second dev row stands for the holdout; returns the naive score of each task."""
    result = {}
    for file in sorted((run / "predictions").glob("*.dev.jsonl")):
        records = load_lines(file)[::2]
        task = file.name.split(".")[0]
        text = "".join(json.dumps(record) + "\n" for record in records)
        file.with_name(f"{task}.holdout.jsonl").write_text(text)
        gold = [record["label"] for record in records]
        if task == "sts":
            result[task] = pearsonr(gold, [record["scores"][0] for record in records]).statistic
        else:
            result[task] = accuracy_score(gold, [record["prediction"] for record in records])
    return result


@pytest.fixture
def groups(tmp_path):
    result = {}
    for name, noise in (("one", 0.5), ("two", 0.1), ("none", 0.2)):
        result[name] = Group(name, [tmp_path / f"{name}-{seed}" for seed in (1, 2)])
        for seed, run in enumerate(result[name].runs, 1):
            write_run(run, rows=60, seed=seed, noise=noise)
    return result


def test_scores_are_those_of_the_held_out_rows(groups):
    naive = [hold_out(run) for run in groups["one"].runs]
    hold_out(groups["two"].runs[0])  # the other seed has none: nothing is said of the group
    comparison = compare(list(groups.values()), "one", resamples=20)
    one, two, none = (group["holdout"] for group in comparison["rows"])
    assert two is None and none is None
    assert set(one) == {*naive[0], MEAN}
    for task in naive[0]:
        entry = one[task]
        assert entry["values"] == pytest.approx([scores[task] for scores in naive])
        assert entry["sd"] == pytest.approx(statistics.stdev(scores[task] for scores in naive))
    means = [statistics.fmean(scores.values()) for scores in naive]
    assert one[MEAN]["values"] == pytest.approx(means)
    assert sheet_tables.holdout_table(comparison) is None, "one group alone is no choice"


def test_the_table_marks_the_best_and_stands_after_the_dev_scores(groups):
    for name in ("one", "two"):
        for run in groups[name].runs:
            hold_out(run)
    comparison = compare(list(groups.values()), "one", resamples=20)
    table = sheet_tables.holdout_table(comparison)
    assert [row[0] for row in table.rows] == ["one", "two"]
    assert table.marked == {(1, column) for column in range(1, len(table.header))}, "less noise"
    for group in comparison["rows"][1:]:  # alone, nothing is best
        if group["holdout"]:
            del group["holdout"][MEAN]
    assert (0, len(table.header) - 1) not in sheet_tables.holdout_table(comparison).marked
    titles = [title for title, _ in sheet_tables.titled_tables(comparison)]
    assert titles[:2] == ["Dev scores", sheet_tables.HOLDOUT_TITLE]


def test_the_score_of_a_run_is_the_mean_or_that_of_each_objective(groups):
    run, other = groups["one"].runs
    naive = hold_out(run)
    assert holdout_scores(run) == pytest.approx([statistics.fmean(naive.values())])
    assert holdout_scores(run, ["sts", "sst"]) == pytest.approx([naive["sts"], naive["sst"]])
    for lacking in ((other,), (run, ["mlm"])):
        with pytest.raises(UserError, match=r"training\.holdout"):
            holdout_scores(*lacking)
