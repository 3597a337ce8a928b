"""Every task type has these attributes; the methods of the base class do what they say."""

import inspect

import numpy as np
import pytest

from multitask.config.registry import TASK_TYPES, task_type
from multitask.data.by_type import shares_rows
from multitask.tasks.base import NoLabels, RowLabels, TaskType, WordLabels, count, divide
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.metrics import compute
from multitask.tasks.rows import Rows
from tests.support.cases import type_case

TYPES = [task_type(name) for name in TASK_TYPES]
ROWS = Rows("f", ["a", "b", "c"], [("x",), ("y",), ("z",)], np.array([2, 0, 1]))


def reader_of(kind: TaskType) -> LabelReader:
    names = ("p", "q", "r") if kind.described_by == "labels" else ()
    return LabelReader(kind, {name: i for i, name in enumerate(names)}, names, 0.0, 5.0)


def test_a_type_stays_small():
    methods = [name for name, _ in inspect.getmembers(TaskType, inspect.isfunction)]
    assert len(methods) < 20
    for kind in TYPES:
        assert type(kind).__init__ is object.__init__ and not vars(kind)


def test_no_type_inherits_from_another():
    bases = {type(kind).__bases__ for kind in TYPES}
    assert bases <= {(RowLabels,), (WordLabels,), (NoLabels,)}


@pytest.mark.parametrize("kind", TYPES, ids=list(TASK_TYPES))
def test_what_a_type_declares(kind):
    assert TASK_TYPES[kind.name].endswith(f":{type(kind).__name__}")
    assert set(kind.selects) <= set(kind.metrics) and kind.selects
    assert kind.described_by in ("", "labels", "label_range")
    kind.gives.format(count=2, names="p or q", low=0.0, high=5.0)
    assert kind.figure_shows.format(task="sst").find("sst") > 0


@pytest.mark.parametrize("kind", [k for k in TYPES if shares_rows(k)], ids=lambda k: k.name)
def test_unread_labels_are_missing_and_read_ones_are_not(kind):
    reader = reader_of(kind)
    labels = kind.unread(3, reader)
    assert kind.missing(labels).tolist() == [True, True, True]
    labels[1] = kind.read(type_case(kind.name).VALUES, reader)
    assert kind.missing(labels).tolist() == [True, False, True]


@pytest.mark.parametrize("name", ["tags", "span", "views"])
def test_no_row_of_several_labels_is_missing(name):
    result = task_type(name).missing(np.array([[0, -1], [3, 4]]))
    assert result.dtype == bool and result.tolist() == [False, False]


@pytest.mark.parametrize(
    ("name", "labels", "counts"),
    [
        ("class", np.array([0, 2, 2, -1]), [1, 0, 2]),
        ("tags", np.array([[0, 2, -1], [0, 0, 2]]), [3, 0, 2]),
        ("labels", np.array([[1.0, 0, 1], [1, 0, 0], [np.nan] * 3]), [2, 0, 1]),
    ],
)
def test_label_counts_leave_out_what_is_missing(name, labels, counts):
    reader = reader_of(task_type(name))
    rows = Rows("rows", ["a"] * len(labels), [("text",)] * len(labels), labels)
    assert reader.task_type.label_counts(rows, reader) == dict(zip("pqr", counts, strict=True))


@pytest.mark.parametrize(
    ("cell", "values"), [(1.0, ["1"]), ("?", None), (True, ["true"]), ("a b", ["a b"])]
)
def test_a_cell_has_one_label_or_none(cell, values):
    assert TaskType().values_in(cell, {"?", ""}, ",") == values


def test_a_list_is_no_single_label():
    with pytest.raises(ValueError, match="one label a row"):
        TaskType().values_in(["1"], set(), ",")


def test_a_value_out_of_the_classes_is_quoted():
    kind = task_type("class")
    assert kind.read(["r"], reader_of(kind)) == 2
    with pytest.raises(ValueError, match="is 's': expected one of p, q, r"):
        kind.read(["s"], reader_of(kind))


def test_records_of_classes_are_read_back():
    kind = task_type("class")
    predictions, scores = np.array([2, 1, 1]), np.full((3, 3), 1 / 3)
    records = list(kind.records(ROWS, reader_of(kind), predictions, scores))
    assert records[0] == {"label": 2, "prediction": 2, "scores": [1 / 3] * 3, "name": "r"}
    for column, saved in zip(
        (ROWS.gold, predictions, scores), kind.read_records(records), strict=True
    ):
        np.testing.assert_array_equal(column, saved)


def test_a_row_in_words():
    kind = task_type("class")
    assert kind.label_in_words(ROWS, 0, reader_of(kind)) == "label r"
    assert kind.labels_in_words({"p": 1, "q": 2}, reader_of(kind), "single") == "p 1, q 2"
    assert TaskType().answer({"prediction": 3}, reader_of(kind)) == {"prediction": "3"}
    assert TaskType().course_values(np.array([0.5, 1.0]), reader_of(kind)) == ["0.5", "1"]


@pytest.mark.parametrize("name", [k.name for k in TYPES if isinstance(k, RowLabels)])
def test_metrics_need_scores_only_where_the_type_says_so(name):
    kind, (labels, predictions, scores) = task_type(name), type_case(name).columns()
    expected = compute(kind, (labels, predictions, scores))
    without = compute(kind, (labels, predictions, np.full_like(scores, np.nan, dtype=float)))
    changed = {name for name in expected if without[name] != expected[name]}
    assert changed == {*kind.of_scores}


def test_zero_over_zero_is_nan(no_warnings):
    assert np.isnan(divide(np.zeros(1), np.zeros(1))).all()
    assert divide(np.ones(1), np.full(1, 4.0)).tolist() == [0.25]


def test_counts_are_per_set_of_rows():
    assert count(np.array([[0, 2, 2], [1, 1, 1]]), 3).tolist() == [[1, 0, 2], [0, 3, 0]]
