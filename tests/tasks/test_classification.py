"""One class per row: metrics against their formulas and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, matthews_corrcoef

from multitask.config.registry import task_type
from multitask.tasks.metrics import compute
from tests.support.tallies import guess, two_columns
from tests.tasks.cases.classification import naive

pytestmark = pytest.mark.usefixtures("no_warnings")


@given(two_columns(st.integers(0, 3)))
def test_class_metrics_equal_their_formulas(columns):
    labels, predictions = columns
    columns = labels, predictions, np.full((len(labels), 4), 0.25)
    values = compute(task_type("class"), columns)
    assert values == pytest.approx(naive(*columns), abs=1e-12)
    if len({*labels, *predictions}) > 1:  # else scikit-learn warns
        assert values["mcc"] == pytest.approx(matthews_corrcoef(labels, predictions), abs=1e-12)
    library = f1_score(labels, predictions, average="macro", zero_division=0)
    assert values["macro_f1"] == pytest.approx(library)


def test_the_trivial_model_knows_only_the_training_labels():
    predictions, scores = guess("class", np.array([1, 1, 0, 2]), 3, classes=4)
    assert predictions.tolist() == [1, 1, 1]
    assert scores.tolist() == [[0.25, 0.5, 0.25, 0.0]] * 3
    with pytest.raises(ValueError, match="training labels"):
        guess("class", np.array([]), 3, classes=4)
