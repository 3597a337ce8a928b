"""Exact match and F1 against examples worked by hand, by the rules of the official script."""

import numpy as np
import pytest

from multitask.config.registry import task_type
from multitask.tasks import metrics
from multitask.tasks.bootstrap import intervals
from multitask.tasks.question_answering import normalised, outcome, word_f1


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("The  Eiffel\nTower!", "eiffel tower"),
        ("a cat, an owl & the dog", "cat owl dog"),
        ("Theatre anthem", "theatre anthem"),  # articles are whole words
        ("U.S.", "us"),
        ("the-best", "thebest"),  # punctuation goes first, then articles
        ("«Zürich»", "«zürich»"),  # other punctuation than ASCII's stays
        ("b’a’c", "b’ ’c"),  # an article leaves a space
        ("The a", ""),
    ],
)
def test_normalisation(text, bare):
    assert normalised(text) == bare


@pytest.mark.parametrize(
    ("predicted", "gold", "f1"),
    [
        ("Denver Broncos", "the Denver Broncos.", 1.0),
        # 2 words shared; precision 2/3, recall 2/2
        ("Denver Broncos team", "Denver Broncos", 0.8),
        # "b b" against "b": 1 shared of 2 and of 1
        ("b b", "b", 2 / 3),
        ("cat", "dog", 0.0),
        ("", "dog", 0.0),
        ("the", "a", 0.0),  # both empty: no shared word
    ],
)
def test_f1_of_words(predicted, gold, f1):
    assert word_f1(predicted, gold) == pytest.approx(f1)


def test_the_best_gold_answer_counts_for_each_metric():
    assert outcome("Broncos", ["Denver Broncos", "the Broncos!", "Carolina"]) == (1.0, 1.0)
    f1, exact = outcome("in Denver today", ["Denver", "Denver Colorado today"])
    assert exact == 0.0
    assert f1 == pytest.approx(2 * 2 / 6)  # of the second: 2 shared of 3 and 3
    assert outcome("The", ["a"]) == (0.0, 1.0)


def test_metrics_are_means_over_rows_and_resampled_over_rows():
    rows = np.array([outcome("x", ["x"]), outcome("x y", ["x"]), outcome("z", ["x"])])
    result = metrics.compute(task_type("span"), (rows[:, 0], rows[:, 0], rows))
    assert result == pytest.approx({"f1": (1 + 2 / 3 + 0) / 3, "exact_match": 1 / 3})
    drawn = np.array([[0, 0, 1], [2, 2, 2]])
    values = metrics.resampled_values(
        task_type("span"), (rows[:, 0], rows[:, 0], rows), drawn, ["f1"]
    )
    assert values["f1"].tolist() == pytest.approx([(1 + 1 + 2 / 3) / 3, 0])
    low, high = intervals(task_type("span"), (rows[:, 0], rows[:, 0], rows))["f1"]
    assert 0 <= low < result["f1"] < high <= 1
    empty = np.zeros((0, 2))
    assert np.isnan(metrics.compute(task_type("span"), (empty[:, 0], empty[:, 0], empty))["f1"])
