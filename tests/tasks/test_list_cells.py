"""Cells that are written as a list, as pandas and JSON write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.tasks.list_cells import list_in


@pytest.mark.parametrize(
    ("cell", "items"),
    [
        ("[2, 6, 7, 0]", ["2", "6", "7", "0"]),
        (" [1_1,5E2, -1.50,007] ", ["1_1", "5E2", "-1.50", "007"]),
        ("[]", []),
        ("[ ]", []),
        ("['He', \"isn't\", '.\\n', 'a, b]']", ["He", "isn't", ".\n", "a, b]"]),
        ('["\\ud83d\\ude00", "a\\/b"]', ["\U0001f600", "a/b"]),
        ("['\\d']", ["\\d"]),
        ("[joy, None, True]", ["joy", "", "True"]),
        ("[nan, 'nan', NaN, \"NaN\", <NA>, NaT]", ["", "nan", "", "NaN", "", ""]),
        ("[-inf, Infinity, 'inf', info, null]", ["", "", "inf", "info", ""]),
        ("[1,]", ["1"]),
        ("[1,\n 2]", ["1", "2"]),
        ("3,10", None),
        ("", None),
        ("a [b] c", None),
    ],
)
def test_items(cell, items):
    assert list_in(cell) == items


@pytest.mark.parametrize(
    "cell",
    ["[2", "0]", "[", "]", "[2 6 7]", "['a' 'b']", "[1,,2]", "[,]", "[[1], [2]]", "['a]", "[1]]",
     "['\\x']", "['a'b]", "[very good]", "[1;2]", "[(1, 2)]", "{1, 2}", '{"a": 1}',
     "[1, 2, ..., 9]", '["\\ud800"]', "['\\ud83d\\ude00']"],
)  # fmt: skip
def test_half_a_list_is_refused(cell):
    with pytest.raises(ValueError, match=r"expected a list such as|which is no text|was shortened"):
        list_in(cell)


@given(st.lists(st.text()))
def test_lists_of_texts_are_read_back(items):
    assert list_in(str(items)) == items
    assert list_in(json.dumps(items)) == items


@given(st.text(alphabet="[]{}'\",\\ ab1\n\x00"))
def test_any_text_is_a_list_or_refused(cell):
    try:
        assert (list_in(cell) is None) == (
            cell.strip()[:1] not in ("[", "{") and cell.strip()[-1:] != "]"
        )
    except ValueError as error:
        assert "\n" not in str(error)
