"""Texts without labels: each once, the sides of a pair apart."""

import numpy as np
import pytest

from multitask.data.texts import distinct_texts, problem_of, sample
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


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (7, 7), (50, 50), (51, 50), (None, 50)])
def test_a_sample_is_fixed_and_in_file_order(size, expected):
    every = rows("file", *((f"w{i}",) for i in range(50)))
    every.labels = np.arange(50)
    every.unlabelled_dropped = 2
    taken = sample(every, size)
    numbers = taken.labels.tolist()
    assert len(taken) == expected
    assert numbers == sorted(set(numbers))
    assert taken.unlabelled_dropped == 2
    assert sample(every, size).ids == taken.ids
    if size == 7:
        assert numbers != list(range(7))  # not the head of the file
        assert set(numbers) <= set(sample(every, 20).labels.tolist())
