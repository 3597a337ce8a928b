"""Labels as the file has them, and one spelling per value."""

import math

import numpy as np
import pytest

from multitask.config.registry import task_type
from multitask.tasks.label_reader import LabelReader, canonical
from multitask.tasks.rows import Rows


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "1"), (1.0, "1"), ("1", "1"), (" 1.0 ", "1"), (-1, "-1"), (2.5, "2.5"), ("+1", "1"),
        ("01", "01"), ("007", "007"), ("0", "0"), ("0.50", "0.5"), (2**53 + 1, str(2**53 + 1)),
        ("2.50", "2.5"), ("1e2", "1e2"), ("1_1", "1_1"), ("١", "١"), ("-1.0", "-1"),
        (None, ""), (float("nan"), ""), ("", ""), (" x ", "x"),
        (math.inf, ""), (-math.inf, ""), ("nan", "nan"), ("inf", "inf"),
        (True, "true"), ("True", "true"), ("FALSE", "false"),
        ("contradiction", "contradiction"), ("-", "-"),
    ],
)  # fmt: skip
def test_one_spelling_a_value(value, expected):
    assert canonical(value) == expected


def test_a_spelling_of_two_classes_is_refused():
    reader = LabelReader(task_type("class"), {"1.0": 0, "+1": 1}, ("a", "b"))
    with pytest.raises(ValueError, match=r"expected one of 1\.0, \+1"):
        reader.read("1")


def test_an_error_names_some_of_many_classes():
    reader = LabelReader(task_type("class"), {f"c{i}": i for i in range(500)}, ())
    with pytest.raises(ValueError, match=r"expected one of c0, .*c19, \.\.\. \("):
        reader.read("d")


def test_an_error_tells_look_alikes_apart():
    reader = LabelReader(task_type("class"), {"bad": 0, "tr\xe8s bon": 1, "Good": 2}, ())
    for value, points in (
        ("tre\u0300s bon", "U+0065 U+0300 instead of U+00E8"),
        ("tr\xe8s\xa0bon", "U+00A0 instead of U+0020"),
        ("tr\xe8s bon\u200b", "U+200B added"),
    ):
        with pytest.raises(ValueError, match=r"expected one of bad, ") as caught:
            reader.read(value)
        assert str(caught.value).endswith(f"; it looks like 'tr\xe8s bon', but has {points}")
    with pytest.raises(ValueError, match=r"meaning\)$"):  # a reader sees this
        reader.read("good")


def test_a_head_is_told_the_classes_and_their_counts():
    reader = LabelReader(task_type("class"), {"0": 0, "1": 1}, ("bad", "good"))
    assert reader.head_context()["class_counts"] == [1, 1]
    result = reader.head_context(Rows("rows", [*"abcd"], [("text",)] * 4, np.array([1, 1, 0, 1])))
    assert (result["num_labels"], result["class_counts"]) == (2, [1, 3])


def test_numbers_alone_are_clipped():
    numbers = LabelReader(task_type("number"), {}, (), 1.0, 5.0)
    assert numbers.clipped(np.array([0.0, 3.0, 9.0])).tolist() == [1.0, 3.0, 5.0]
    assert (numbers.head_context()["low"], numbers.head_context()["high"]) == (1.0, 5.0)
    classes = LabelReader(task_type("class"), {}, ("a", "b"))
    assert classes.clipped(np.array([0, 9])).tolist() == [0, 9]
