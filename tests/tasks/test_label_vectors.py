"""Label vectors: what a vector is, and which columns hold them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.tasks.label_vectors import classes_in, vector_in, vector_length

BITS = [False, True, False, False]


@pytest.mark.parametrize(
    "cell",
    [
        [0, 1, 0, 0], [0.0, 1.0, 0.0, 0.0], ["0.0", "1.0", "0", "0"], BITS, ["False", "true", 0, 0],
        "[0, 1, 0, 0]", "[0.0, 1.0, 0.0, 0.0]", " [False, True, False, False] ", "['0', '1', 0, 0]",
        "[0. 1. 0. 0.]", "[0 1\n 0 0]", "0,1,0,0", "0, 1, 0, 0", "0 1 0 0", "0;1;0;0", "0|1|0|0",
        "0\t1\t0\t0", "0.0 1.0 0.0 0.0", "0.00e+00 1.00e+00 0.00e+00 0.00e+00",
    ],
)  # fmt: skip
def test_a_vector(cell):
    assert vector_in(cell, ",") == BITS


def test_a_text_is_split_at_the_separator_of_the_config():
    assert vector_in("0/1/0/0", "/") == vector_in("0 / 1 / 0 / 0", "/") == BITS
    assert vector_in("0/1/0/0", ",") is None


@pytest.mark.parametrize(
    "cell",
    ["", "1", "joy", "0,joy", "[]", [], [0, 2], [0, 0.5], [0, -1], [0, None], [[0, 1]], ["joy"],
     {"a": 1}, None, 1, True, "[0, 1", "0-1", "01 x"],
)  # fmt: skip
def test_no_vector(cell):
    assert vector_in(cell, ",") is None


vectors = st.integers(3, 6).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, 1), min_size=size, max_size=size), min_size=1, max_size=20
    )
)
FORMS = [
    list,
    str,
    json.dumps,
    lambda cell: " ".join(map(str, cell)),
    lambda cell: ",".join(map(str, cell)),
    lambda cell: list(map(float, cell)),
    lambda cell: list(map(bool, cell)),
]


@given(vectors, st.sampled_from(FORMS), st.booleans())
def test_vectors_are_noticed_in_every_form(rows, form, sure):
    assert vector_length(list(map(form, rows)), ",", sure=sure) == len(rows[0])


@given(st.lists(st.sampled_from([[], ["0"], ["1"], ["0", "1"], ["1", "0"]]), min_size=1))
def test_lists_of_the_classes_0_and_1_are_no_vectors(rows):
    """Sets of two classes, of any length; in one order, lists of one length may be either."""
    if len(set(map(len, rows))) > 1:
        share = max(sum(len(row) == size for row in rows) for size in (1, 2)) / len(rows)
        assert share >= 0.9 or vector_length(rows, ",") == 0
    in_order = [sorted(row) for row in rows]
    assert vector_length(in_order, ",", sure=True) == 0


@pytest.mark.parametrize(
    ("rows", "length", "sure"),
    [
        ([[0, 1], [1, 0]], 2, 2),  # one set of classes in two orders: one-hot vectors
        ([[0, 1], [1, 1]], 2, 2),
        ([[0, 1], [0, 1]], 2, 0),
        ([[0], [1]], 1, 0),  # lists of one class, or vectors of one number
        (["0", "1"], 0, 0),
        ([[0], [1], [0, 1]], 0, 0),
        ([[0, 1, 0]] * 9 + [[0, 1]], 3, 3),  # an odd row is a mistake in a vector
        ([[0, 1, 0]] * 9 + [["joy"]], 3, 3),
        ([[0, 1, 0]] * 8 + [[1]] * 2, 0, 0),
        ([[2, 6, 0, 0], [1, 0, 0, 0]], 0, 0),
        ([], 0, 0),
    ],
)
def test_columns_that_hold_vectors(rows, length, sure):
    assert vector_length(rows, ",") == length
    assert vector_length(rows, ",", sure=sure is not None) == sure


def test_lists_that_are_filled_up_are_no_vectors():
    rows = [[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]]
    assert (vector_length(rows, ","), vector_length(rows, ",", "0.0")) == (4, 0)
    assert vector_length([*rows, [0, 1, 0, 0]], ",", "0") == 4


@given(vectors)
def test_the_classes_in_a_vector_are_those_of_its_ones(rows):
    names = [f"class {i}" for i in range(len(rows[0]))]
    for row in rows:
        expected = [name for name, bit in zip(names, row, strict=True) if bit]
        assert classes_in(row, names, ",") == expected


def test_numbers_from_0_are_the_places_in_any_order():
    assert classes_in([0, 1, 1], ["2", "0", "1"], ",") == ["1", "2"]
    assert classes_in([0, 1, 1], ["1", "2", "3"], ",") == ["2", "3"]


@pytest.mark.parametrize(
    "cell", [[0, 1], [0, 1, 0, 1], [0, 2, 1], ["a"], "a", "1", 1, [0, None, 1]]
)
def test_another_cell_is_refused(cell):
    with pytest.raises(ValueError, match=r"^is .*: expected 3 numbers, 0 or 1: one per class$"):
        classes_in(cell, ["a", "b", "c"], ",")
