"""Texts without labels: each once, the sides of a pair apart."""

import numpy as np
import pytest

from multitask.data.texts import distinct_texts, problem_of
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError


def rows(source, *texts):
    return Rows(source, [f"id{i}" for i in range(len(texts))], list(texts), np.zeros(len(texts)))


def test_each_text_once_in_order_and_no_empty_one():
    pairs = rows("pairs.csv", ("a b", "c"), ("c", "a b"), (" ", "d"))
    result = distinct_texts([rows("one.csv", ("c",), ("e",)), pairs])
    assert result.texts == [("c",), ("e",), ("a b",), ("d",)]
    assert result.ids == ["0", "1", "2", "3"]
    assert result.source == "one.csv, pairs.csv"
    assert result.gold.tolist() == [0, 0, 0, 0]


def test_nothing_left_is_an_error():
    with pytest.raises(UserError, match=r"one\.csv: no texts"):
        distinct_texts([rows("one.csv", ("",), (" ",))])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ""),
        ("\U0001f600\0", ""),
        ("a" * 10_000_001, "has 10,000,001 characters, the most is 10,000,000: split it"),
        ("so \ud83d sad", "holds half a character: mend it"),
    ],
)
def test_a_text_that_cannot_be_used(text, problem):
    assert problem_of(text) == problem
