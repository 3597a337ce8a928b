"""Rows without labels: of a user's file, of Python; each text once, samples."""

import numpy as np
import pandas as pd
import pytest

from multitask.data.inputs.cross import Cross
from multitask.data.inputs.single import Single
from multitask.data.tags import words_rows
from multitask.data.texts import distinct_texts, problem_of, rows_of_texts, sample, texts_from_file
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError
from tests.support.data_files import make, refusal


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


# --- of a user ---


@pytest.mark.parametrize(
    ("name", "text", "pair", "texts"),
    [
        ("x.txt", "one\n\n two \n", False, [("one",), (" two ",)]),
        ("x.txt", "one\ttwo\nthree\tfour", True, [("one", "two"), ("three", "four")]),
        ("x.txt", "x\u2028y\n", False, [("x\u2028y",)]),
        # whatever the task's own format, the header tells the separator
        ("x.csv", "a,b\none,two\n", True, [("one", "two")]),
        ("x.csv", "a\tb\none\ttwo\n", True, [("one", "two")]),
        ("x.TSV", "a\tb\none, 1\ttwo\n", True, [("one, 1", "two")]),
        ("x.csv", "a\none\n", False, [("one",)]),
        ("x.jsonl", '{"a": "one", "b": "two"}', True, [("one", "two")]),
    ],
)
def test_texts_of_the_user(name, text, pair, texts, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    data = {"format": "tsv", "text": "a", "id": None, "label": "unknown"}
    config = make(
        tmp_path, data | ({"text2": "b"} if pair else {}), input="cross" if pair else "single"
    )
    rows = texts_from_file(config.tasks["t"], tmp_path / name)
    assert rows.texts == texts
    assert rows.labels is None
    lines = [str(i) for i, line in enumerate(text.split("\n")) if line.strip()]
    assert rows.ids == (lines if name == "x.txt" else [str(i) for i in range(len(texts))])


@pytest.mark.parametrize(
    ("name", "text", "pair", "message"),
    [
        ("x.txt", "\n", False, "x.txt: no texts"),
        ("x.txt", "one\ttwo\n", False, "x.txt, line 1: expected one text, without a tab"),
        ("x.txt", "one\ttwo\n\nthree\n", True, "x.txt, line 3: expected two texts with a tab"),
        ("x.docx", "one\n", False, "cannot tell the format: give it one of the endings .txt, .csv"),
        ("x.csv", "b\none\n", False, "no column 'a'"),
    ],
)
def test_texts_that_do_not_fit(name, text, pair, message, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    data = {"text": "a", "id": None} | ({"text2": "b"} if pair else {})
    config = make(tmp_path, data, input="cross" if pair else "single")
    assert message in refusal(texts_from_file, config.tasks["t"], tmp_path / name)


# --- texts from Python ---


@pytest.mark.parametrize(
    "texts",
    [
        ["a", "b"],
        ("a", "b"),
        (letter for letter in "ab"),
        map(str, ["a", "b"]),
        {"a": 1, "b": 2}.keys(),
        np.array(["a", "b"]),
        pd.Series(["a", "b"], index=[4, 9]),
        pd.Series(["a", "b"], dtype="category"),
        pd.Index(["a", "b"]),
    ],
)
def test_any_iterable_of_texts(texts):
    assert rows_of_texts(texts, Single(), "task t").texts == [("a",), ("b",)]


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "b"), ["c", "d"]],
        zip("ac", "bd", strict=True),
        np.array([["a", "b"], ["c", "d"]]),
        pd.DataFrame({"x": ["a", "c"], "y": ["b", "d"]}).itertuples(index=False),
    ],
)
def test_any_iterable_of_pairs(pairs):
    assert rows_of_texts(pairs, Cross(), "task t").texts == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("rows", [rows_of_texts, words_rows])
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a text", "expected a list of .*, not str"),
        (b"a text", "expected a list of .*, not bytes"),
        ({"text": ["a"]}, "expected a list of .*, not dict"),
        (None, "expected a list of .*, not NoneType"),
        (3, "expected a list of .*, not int"),
        (iter([]), "expected a list of .*, not an empty one"),
        (pd.DataFrame({"text": ["a"]}), "expected a list of .*, not a table: pass one of its col"),
        (pd.Series(["a", None], index=[4, 9]), "item 1 is (nan|None)|row 2: words is (nan|None)"),
        (["a", pd.NA], "item 1 is <NA>|row 2: words is <NA>"),
        (["a", None], "item 1 is None|row 2: words is None"),
        (["a", 5], "item 1 is 5|row 2: words is 5"),
        ([b"a"], "item 0 is b'a'|row 1: words is "),
        ([{"text": "a"}], "item 0 is {|row 1: words is {"),
        ([{"a"}], "item 0 is {|row 1: words is {"),  # a set has no order
        (
            ["so \ud83d sad"],
            "item 0: a text holds half a character|row 1: words holds half a character",
        ),
    ],
)
def test_what_is_no_list_of_texts(texts, message, rows):
    with pytest.raises(UserError, match=f"task t.*({message})") as caught:
        rows(texts, Single(), "task t")
    assert "\n" not in str(caught.value)
