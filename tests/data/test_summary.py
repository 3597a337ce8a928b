"""Counts of a split, classes that look alike."""

import numpy as np
import pytest

from multitask.config.registry import task_type
from multitask.data.summary import alike, describe
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows


def rows_of(*texts: str | tuple[str, ...], labels: list | None = None) -> Rows:
    tuples = [(text,) if isinstance(text, str) else text for text in texts]
    result = None if labels is None else np.array(labels)
    return Rows("file", [str(i) for i in range(len(tuples))], tuples, result)


CLASSES = LabelReader(task_type("class"), {"0": 0, "1": 1, "2": 2}, ("bad", "so so", "good"))
NUMBERS = LabelReader(task_type("number"), {}, (), 0.0, 5.0)


def test_describe_counts_what_the_report_shows():
    rows = rows_of("a", " a ", "b", "", "  ", labels=[0, 0, 2, 2, 2])
    rows.unlabelled_dropped = 3
    assert describe(rows, CLASSES) == {
        "rows": 5,
        "unlabelled_dropped": 3,
        "empty_texts": 2,
        "duplicates": 2,  # " a " again, and the second empty text
        "label_counts": {"bad": 2, "so so": 0, "good": 3},
    }


def test_describe_numbers_pairs_and_unlabelled():
    pairs = rows_of(("a", "b"), ("b", "a"), ("a", ""), labels=[1.0, 2.0, 3.0])
    result = describe(pairs, NUMBERS)
    assert (result["duplicates"], result["empty_texts"], result["label_counts"]) == (1, 1, {})
    assert describe(rows_of("a"), CLASSES)["label_counts"] == {}


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["1", "1.0", "2", "two"], [["1", "1.0"]]),
        (["500", "5E2", "+500"], [["500", "5E2", "+500"]]),
        (["pos", "Pos ", "neg"], [["pos", "Pos "]]),
        (["nan", "inf", "1_1", "11"], []),
    ],
)
def test_classes_that_look_alike(names, groups):
    assert alike(names) == groups
