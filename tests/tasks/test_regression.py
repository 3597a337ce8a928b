"""One number per row: metrics against their formulas."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.config.registry import task_type
from multitask.tasks.bootstrap import intervals
from multitask.tasks.metrics import compute
from tests.support.tallies import guess, two_columns
from tests.tasks.cases import regression

pytestmark = pytest.mark.usefixtures("no_warnings")


@given(two_columns(st.sampled_from([-1.5, 0.0, 0.2, 1.0, 3.4, 5.0])))
def test_number_metrics_equal_their_formulas(columns):
    labels, predictions = columns
    columns = labels, predictions, predictions[:, None]
    values = compute(task_type("number"), columns)
    assert values == pytest.approx(regression.naive(*columns), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("constant", ["labels", "predictions"])
def test_a_correlation_with_a_constant_is_nan(constant):
    # 0.1 has a rounded mean: the variance computed naively is not exactly 0.
    sides = {"labels": np.arange(7.0), "predictions": np.arange(7.0), constant: np.full(7, 0.1)}
    labels, predictions = sides["labels"], sides["predictions"]
    values = compute(task_type("number"), (labels, predictions, predictions[:, None]))
    assert math.isnan(values["pearson"]) and math.isnan(values["spearman"])
    assert values["mse"] > 0
    bounds = intervals(
        task_type("number"), (labels, predictions, predictions[:, None]), resamples=10
    )
    assert np.isnan(bounds["pearson"]).all() and np.isfinite(bounds["mse"]).all()


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
@pytest.mark.parametrize("level", [0.1, 2.5, -1e-20, 1e20])
def test_predictions_that_differ_by_rounding_only_are_constant(metric, level):
    """Here by up to four steps of float32."""
    labels = np.arange(7.0)
    noise = np.float32(level) * (1 + np.finfo(np.float32).eps * (labels * 3 % 5)).astype(np.float32)
    columns = labels, noise, noise[:, None]
    assert len(set(noise.tolist())) > 2
    assert math.isnan(compute(task_type("number"), columns)[metric])
    # a difference of 1 in 100,000 counts, on every scale
    small = np.float32(level) * (1 + 1e-5 * labels).astype(np.float32)
    result = compute(task_type("number"), (labels, small, small[:, None]))[metric]
    assert result == pytest.approx(math.copysign(1, level), abs=0.01)


def test_a_diverged_model_scores_nan_and_has_no_interval():
    labels, predictions, scores = regression.columns(rows=20)
    predictions[3] = math.nan
    assert np.isnan(
        list(compute(task_type("number"), (labels, predictions, scores)).values())
    ).all()
    bounds = intervals(task_type("number"), (labels, predictions, scores), resamples=50)
    assert np.isnan(list(bounds.values())).all()


def test_nan_resamples_are_ignored():
    numbers = np.array([0.0, 1.0, 5.0])
    bounds = intervals(task_type("number"), (numbers, numbers[::-1], numbers[:, None]))
    assert np.isfinite(list(bounds.values())).all()


def test_the_trivial_model_knows_only_the_training_labels():
    predictions, scores = guess("number", np.array([1.0, 2.0, 4.5]), 2)
    assert predictions.tolist() == [2.5, 2.5] and scores.tolist() == [[2.5], [2.5]]
