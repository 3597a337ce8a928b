"""Rows stay together."""

import numpy as np
import pytest

from multitask.tasks.rows import Rows


def test_take_keeps_rows_together():
    rows = Rows("f", ["a", "b", "c"], [("x",), ("y",), ("z",)], np.array([0, 1, 2]), 5)
    taken = rows.take([2, 0])
    assert (taken.ids, taken.texts, taken.labels.tolist()) == (["c", "a"], [("z",), ("x",)], [2, 0])
    assert Rows("f", ["a"], [("x",)], None).take([0]).labels is None


def test_a_split_without_labels_says_so():
    with pytest.raises(ValueError, match=r"f\.csv has no labels"):
        Rows("f.csv", ["a"], [("x",)], None).gold  # noqa: B018
