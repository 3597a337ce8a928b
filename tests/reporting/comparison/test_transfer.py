"""Gains of joint training over single tasks, from hand-made comparisons."""

import pytest

from multitask.reporting.comparison.compare import compare, group_runs
from multitask.reporting.comparison.transfer import transfer
from tests.support.fabricated_run import write_run


def made(**groups):
    """A comparison that holds mean scores alone."""
    return {
        "groups": [
            {"name": name, "tasks": {task: {"mean": mean} for task, mean in scores.items()}}
            for name, scores in groups.items()
        ]
    }


def test_delta_m_and_the_matrix_of_a_task_subset_grid():
    result = transfer(
        made(
            a={"sst": 0.5},
            b={"qqp": 0.8},
            c={"sts": 0.4},
            ab={"sst": 0.55, "qqp": 0.76},
            bc={"qqp": 0.8, "sts": 0.5},
            abc={"sst": 0.6, "qqp": 0.84, "sts": 0.3},
        )
    )
    assert result["singles"] == {"sst": "a", "qqp": "b", "sts": "c"}
    gains = result["gains"]
    assert gains["ab"]["tasks"] == pytest.approx({"sst": 10, "qqp": -5})
    assert gains["ab"]["delta_m"] == pytest.approx(2.5)
    assert gains["abc"]["delta_m"] == pytest.approx((20 + 5 - 25) / 3)
    assert list(gains) == ["ab", "bc", "abc"]
    matrix = result["matrix"]
    assert matrix["qqp"]["sst"] == {"change": pytest.approx(0.05), "group": "ab"}
    assert matrix["sst"]["qqp"]["change"] == pytest.approx(-0.04)
    assert matrix["sts"]["qqp"]["change"] == 0.0
    assert matrix["qqp"]["sts"]["change"] == pytest.approx(0.1)
    assert "sts" not in matrix["sst"]  # no run has these two alone


def test_a_task_that_was_never_trained_alone_leaves_a_group_out():
    singles = {"a": {"sst": 0.5}, "c": {"sts": 0.4}}
    assert transfer(made(**singles, ab={"sst": 0.5, "qqp": 0.5})) == {}
    assert transfer(made(**singles)) == {}
    assert transfer(made(ab={"sst": 0.5, "qqp": 0.5})) == {}


def test_undefined_scores_and_those_not_above_zero_have_no_relative_gain():
    result = transfer(
        made(a={"sst": None}, b={"qqp": 0.5}, c={"sts": -0.1},
             ab={"sst": 0.5, "qqp": 0.6}, bc={"qqp": 0.5, "sts": 0.2})
    )  # fmt: skip
    assert result["gains"]["ab"] == {
        "delta_m": None,
        "tasks": {"sst": None, "qqp": pytest.approx(20)},
    }
    assert result["gains"]["bc"]["delta_m"] is None
    assert result["matrix"]["qqp"]["sst"]["change"] is None
    assert result["matrix"]["qqp"]["sts"]["change"] == pytest.approx(0.3)


def test_the_first_of_several_single_task_groups_stands_for_the_task():
    result = transfer(made(first={"a": 0.5}, second={"a": 0.6}, b={"b": 0.5}, ab={"a": 1, "b": 1}))
    assert result["singles"] == {"a": "first", "b": "b"}


def test_a_comparison_of_runs_holds_its_transfer(tmp_path):
    subsets = [("sst",), ("sts",), ("sst", "sts"), ("para", "sst")]
    for only in subsets:
        write_run(tmp_path / "_".join(only), rows=40, only=only, noise=0.1 * len(only))
    groups = group_runs([tmp_path / "_".join(only) for only in subsets])
    comparison = compare(groups, "sst", resamples=10)
    means = {
        group["name"]: {task: entry["mean"] for task, entry in group["tasks"].items()}
        for group in comparison["groups"]
    }
    result = comparison["transfer"]
    assert list(result["gains"]) == ["sst_sts"]  # para was never trained alone
    change = means["sst_sts"]["sts"] - means["sts"]["sts"]
    assert result["matrix"]["sst"]["sts"]["change"] == pytest.approx(change)
