"""Several classes per row: metrics against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import accuracy_score, f1_score

from multitask.config.registry import task_type
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.metrics import compute
from multitask.tasks.rows import Rows

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


KIND = task_type("labels")
READER = LabelReader(KIND, {name: i for i, name in enumerate("abc")}, tuple("abc"))


def rows_of(labels: list[list[int]] | None, count: int = 3) -> Rows:
    ids = [str(number) for number in range(count)]
    return Rows("dev.csv", ids, [("a text",)] * count, labels and np.array(labels, np.float32))


def test_the_guess_has_the_classes_of_more_than_half_the_training_rows():
    train = rows_of([[1, 0, 1], [1, 1, 0], [1, 0, 1]])
    predictions, scores = KIND.trivial(train, rows_of(None, 2), READER)
    assert predictions.tolist() == [[1, 0, 1]] * 2
    np.testing.assert_allclose(scores, [[1, 1 / 3, 2 / 3]] * 2, rtol=1e-6)
    with pytest.raises(ValueError, match="needs training labels"):
        KIND.trivial(train.take([]), train, READER)


def test_a_mistake_is_as_large_as_its_surest_wrong_decision():
    rows, scores = rows_of([[1, 0, 1], [0, 0, 0], [1, 1, 0]]), np.array([[0.9, 0.7, 0.2]] * 3)
    records = list(KIND.records(rows, READER, KIND.decide(scores), scores))
    assert [record["label"] for record in records] == [[0, 2], [], [0, 1]]
    first, second, third = (KIND.mistake(record, READER.names) for record in records)
    assert (first.size, second.size, third) == (0.8, 0.9, None)
    assert KIND.label(rows_of(None), 0, READER) is None
