"""One of two classes per row: metrics against their formulas and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score

from multitask.config.registry import task_type
from multitask.tasks.bootstrap import intervals
from multitask.tasks.metrics import compute
from tests.support.tallies import guess, two_columns
from tests.tasks.cases import binary

pytestmark = pytest.mark.usefixtures("no_warnings")


@given(two_columns(st.integers(0, 1)), st.data())
def test_binary_metrics_equal_their_formulas(columns, data):
    labels, predictions = columns
    # Few distinct values, so that many rows share a threshold.
    scores = data.draw(arrays(np.float64, len(labels), elements=st.sampled_from([0, 0.2, 0.7, 1])))
    columns = labels, predictions, scores[:, None]
    values = compute(task_type("binary"), columns)
    assert values == pytest.approx(binary.naive(*columns), abs=1e-12, nan_ok=True)
    if labels.any():
        assert values["average_precision"] == pytest.approx(average_precision_score(labels, scores))


def test_one_class_sets():
    scores = np.array([[0.2], [0.9], [0.4]])
    none, all_positive = np.zeros(3, int), np.ones(3, int)
    assert compute(task_type("binary"), (none, none, scores)) == pytest.approx(
        {"accuracy": 1.0, "f1": 0.0, "mcc": 0.0, "average_precision": math.nan}, nan_ok=True
    )
    assert compute(task_type("binary"), (all_positive, all_positive, scores)) == {
        "accuracy": 1.0,
        "f1": 1.0,
        "mcc": 0.0,
        "average_precision": 1.0,
    }


def test_a_diverged_model_has_no_average_precision():
    labels, predictions, scores = binary.columns(rows=20)
    scores[3] = math.nan
    values = compute(task_type("binary"), (labels, predictions, scores))
    assert math.isnan(values["average_precision"]) and values["accuracy"] > 0


def test_nan_resamples_are_ignored():
    # Many resamples of three rows hold no positive, or only one distinct row.
    labels, scores = np.array([0, 1, 0]), np.array([[0.1], [0.8], [0.9]])
    bounds = intervals(task_type("binary"), (labels, (scores[:, 0] > 0.5).astype(int), scores))
    assert np.isfinite(list(bounds.values())).all()


def test_the_trivial_model_knows_only_the_training_labels():
    predictions, scores = guess("binary", np.array([1, 0, 0, 0]), 2, classes=2)
    assert predictions.tolist() == [0, 0] and scores.tolist() == [[0.25], [0.25]]
    predictions, scores = guess("binary", np.array([1, 1]), 1, classes=2)
    assert predictions.tolist() == [1] and scores.tolist() == [[1.0]]
