"""Counts of a split, classes that look alike."""

import numpy as np
import pytest

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.data.summary import alike, data_warnings, describe, told_apart, unread
from multitask.store.saved import SplitFacts
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows


def rows_of(*texts: str | tuple[str, ...], labels: list | None = None) -> Rows:
    tuples = [(text,) if isinstance(text, str) else text for text in texts]
    result = None if labels is None else np.array(labels)
    return Rows("file", [str(i) for i in range(len(tuples))], tuples, result)


CLASSES = LabelReader(task_type("class"), {"0": 0, "1": 1, "2": 2}, ("bad", "so so", "good"))
CHOICES = LabelReader(task_type("choice"), {}, ())
NUMBERS = LabelReader(task_type("number"), {}, (), 0.0, 5.0)


def test_describe_counts_what_the_report_shows():
    rows = rows_of("a", " a ", "b", "", "  ", labels=[0, 0, 2, 2, 2])
    rows.unlabelled_dropped = 3
    assert describe(rows, CLASSES).content() == {
        "rows": 5,
        "unlabelled_dropped": 3,
        "empty_texts": 2,
        "duplicates": 2,  # " a " again, and the second empty text
        "label_counts": {"bad": 2, "so so": 0, "good": 3},
    }


def test_describe_counts_the_places_of_right_endings():
    rows = rows_of(("c", "x", "y", "z"), ("c", "x", "y", "z"), labels=[0, 2])
    assert describe(rows, CHOICES).label_counts == {"0": 1, "1": 0, "2": 1}
    assert describe(rows_of(("c", "x", "y")), CHOICES).label_counts == {}


def test_describe_numbers_pairs_and_unlabelled():
    pairs = rows_of(("a", "b"), ("b", "a"), ("a", ""), labels=[1.0, 2.0, 3.0])
    result = describe(pairs, NUMBERS)
    assert (result.duplicates, result.empty_texts, result.label_counts) == (1, 1, {})
    assert describe(rows_of("a"), CLASSES).label_counts == {}


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["1", "1.0", "2", "two"], [["1", "1.0"]]),
        (["500", "5E2", "+500"], [["500", "5E2", "+500"]]),
        (["pos", "Pos ", "neg"], [["pos", "Pos "]]),
        (["nan", "inf", "1_1", "11"], []),
        (["tr\xe8s bon", "tre\u0300s bon", "tr\xe8s\xa0bon", "bon"],
         [["tr\xe8s bon", "tre\u0300s bon", "tr\xe8s\xa0bon"]]),
        (["a\u200b", "a", "\ufeffa", "a\xad", "\u200ea", "b"],
         [["a\u200b", "a", "\ufeffa", "a\xad", "\u200ea"]]),
        (["\u2764", "\u2764\ufe0f", "\uff21", "A", "1\u200b", "1.0"],
         [["\u2764", "\u2764\ufe0f"], ["\uff21", "A"], ["1\u200b", "1.0"]]),
    ],
)  # fmt: skip
def test_classes_that_look_alike(names, groups):
    assert alike(names) == groups


@pytest.mark.parametrize(
    ("part", "answers", "lines"),
    [
        ({"cut": 3}, False, ["3 dev words are cut off, and predicted as O"]),
        ({"cut": 3}, True, ["3 dev answers are cut off"]),
        (
            {"cut": 3, "without_piece": 3},
            False,
            ["3 dev words have no token, and are predicted as O: the tokenizer drops all their"],
        ),
        (
            {"cut": 3, "without_piece": 1},
            False,
            ["2 dev words are cut off, and predicted as O", "1 dev words have no token, and are"],
        ),
        ({"cut": 0}, False, []),
        ({}, False, []),
    ],
)
def test_words_without_a_token_are_told_by_their_reason(part, answers, lines):
    result = list(
        unread(SplitFacts(rows=9, **part), "dev", task_type("span" if answers else "tags"))
    )
    assert len(result) == len(lines)
    assert all(one.startswith(line) for one, line in zip(result, lines, strict=True))


def test_classes_that_look_alike_are_told_apart_by_code_points():
    assert told_apart(["pos", "Pos "]) == ["'pos'", "'Pos '"]
    shown = told_apart(["tr\xe8s", "tre\u0300s", "tr\xe8s\u200b"])
    assert shown[0] == "'tr\xe8s'"
    assert shown[1].endswith(" (U+0065 U+0300 instead of U+00E8)")
    assert shown[2] == "'tr\xe8s\\u200b' (U+200B added)"


@pytest.mark.parametrize(
    ("head", "unlabelled", "advice"),
    [
        ("multi_label", [""], "`data.unlabelled: []`"),
        ("multi_label", ["", "na"], '`data.unlabelled: ["na"]`'),
        ("multi_label", ["na"], ""),
        ("classification", [""], ""),
    ],
)
def test_empty_cells_of_several_classes_may_mean_none(head, unlabelled, advice):
    data = {"train": "a.csv", "dev": "b.csv", "unlabelled": unlabelled}
    config = load_config({"tasks": {"t": {"head": head, "data": data}}})
    facts = SplitFacts(
        rows=9, unlabelled_dropped=4, empty_texts=0, duplicates=0, label_counts={"x": 9}
    )
    facts = facts.model_copy(update={"truncated_share": 0.0})
    (warning,) = data_warnings(config, {"t": {"train": facts}}, ["t"])
    assert warning.startswith("t: 4 train rows without a label dropped")
    assert advice in warning and ("unlabelled:" in warning) == bool(advice)
