"""Several classes per row: metrics against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import accuracy_score, f1_score

from multitask.config.registry import task_type
from multitask.tasks.metrics import compute

pytestmark = pytest.mark.usefixtures("no_warnings")


@given(arrays(int, st.tuples(st.integers(1, 30), st.just(4)), elements=st.integers(0, 3)))
def test_metrics_of_several_classes_equal_scikit_learns(cells):
    gold, predicted = cells % 2, cells // 2
    result = compute(task_type("labels"), (gold.astype(float), predicted, predicted.astype(float)))
    occurs = [c for c in range(4) if gold[:, c].any() or predicted[:, c].any()]
    assert result["f1"] == pytest.approx(
        f1_score(gold, predicted, average="micro", zero_division=0)
    )
    by_class = f1_score(gold, predicted, average=None, zero_division=0)
    assert result["macro_f1"] == pytest.approx(np.mean(by_class[occurs]) if occurs else 0)
    assert result["exact_match"] == pytest.approx(accuracy_score(gold, predicted))


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ("a, b", ["a", "b"]),
        ("(none)", ["(none)"]),
        ("(a), (b)", ["(a)", "(b)"]),
        (":(, :)", [":(", ":)"]),
        (["a", 1, True], ["a", "1", "true"]),
    ],
)
def test_the_labels_of_a_cell(cell, values):
    assert task_type("labels").values_in(cell, {""}, ",") == values


@pytest.mark.parametrize(
    "cell",
    [
        "(1, 2)",
        "(1,)",
        "array([1, 2])",
        "array([1])",
        "{1, 2}",
        [["a"], "b"],
        [{"a": 1}],
        [("a", 1)],
        [b"\xff"],
        {"a": 1},
    ],
)
def test_what_is_no_list_of_labels_is_refused(cell):
    with pytest.raises(ValueError, match="expected a list"):
        task_type("labels").values_in(cell, {""}, ",")
