"""Exact match and F1: examples worked by hand, and the official scripts as plain loops."""

import random
import re
import string
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.config.registry import task_type
from multitask.tasks import metrics
from multitask.tasks.bootstrap import intervals
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.question_answering import best_threshold, normalised, outcome, word_f1
from multitask.tasks.rows import Rows


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
    rows = np.array([outcome(text, ["x"]) for text in ("x", "x y", "z")])
    rows = np.column_stack([rows, np.ones(3)])
    names = ("f1", "exact_match")
    result = metrics.compute(task_type("span"), (rows[:, 0], rows[:, 0], rows), names)
    assert result == pytest.approx({"f1": (1 + 2 / 3 + 0) / 3, "exact_match": 1 / 3})
    drawn = np.array([[0, 0, 1], [2, 2, 2]])
    values = metrics.resampled_values(
        task_type("span"), (rows[:, 0], rows[:, 0], rows), drawn, ["f1"]
    )
    assert values["f1"].tolist() == pytest.approx([(1 + 1 + 2 / 3) / 3, 0])
    low, high = intervals(task_type("span"), (rows[:, 0], rows[:, 0], rows))["f1"]
    assert 0 <= low < result["f1"] < high <= 1
    empty = np.zeros((0, 3))
    assert np.isnan(metrics.compute(task_type("span"), (empty[:, 0], empty[:, 0], empty))["f1"])


# --- the official scripts, with all answers of a question and its prediction ---


def bare_words(text):
    text = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def f1_of_words(gold, predicted, both_empty):
    gold, predicted = bare_words(gold), bare_words(predicted)
    if both_empty is not None and not (gold and predicted):
        return both_empty if gold == predicted else 0
    same = sum((Counter(gold) & Counter(predicted)).values())
    if not same:
        return 0
    precision, recall = same / len(predicted), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def official(rows, version):
    """Scores of (answers, prediction) as evaluate-v1.1.py and evaluate-v2.0.py print them, by 100.

    In v2.0 two texts without words have F1 1, and an answer without words does not count.
    """
    exact, f1, has_answer = [], [], []
    for answers, predicted in rows:
        has_answer.append(bool(answers))
        if version == 2:
            answers = [gold for gold in answers if bare_words(gold)] or [""]
        exact.append(max(float(bare_words(gold) == bare_words(predicted)) for gold in answers))
        both_empty = 1 if version == 2 else None
        f1.append(max(f1_of_words(gold, predicted, both_empty) for gold in answers))
    result = {"exact_match": sum(exact) / len(exact), "f1": sum(f1) / len(f1)}
    if version == 2:
        for name, kind in (("has_ans_f1", True), ("no_ans_f1", False)):
            chosen = [value for value, has in zip(f1, has_answer, strict=True) if has is kind]
            result[name] = sum(chosen) / len(chosen)
    return result


@pytest.mark.parametrize("version", [1, 2])
def test_random_predictions_score_as_the_official_scripts_do(version):
    draw = random.Random(version)
    reader = LabelReader(task_type("span"), {}, (), no_answer=version == 2)
    words = "The a an the, cat Cat's dog! - (x) U.S. é b".split()
    texts, answers, predictions = [], [], []

    def part(context):
        start = draw.randrange(len(context))
        return start, draw.randint(start + 1, min(len(context), start + 12))

    for _ in range(200):
        context = " ".join(draw.choices(words, k=draw.randint(3, 12)))
        spans = [part(context) for _ in range(draw.choice([1, 1, 2, 3]))]
        golds = [context[start:end] for start, end in spans]
        golds = [gold for gold in golds if gold.strip()] or ["The"]
        texts.append(("who ?", context))
        answers.append(() if version == 2 and draw.random() < 0.3 else tuple(golds))
        choice = draw.random()
        predictions.append((0, 0) if choice < 0.3 else spans[0] if choice < 0.6 else part(context))
    rows = Rows("f", [*map(str, range(200))], texts, np.zeros((200, 2)), answers=answers)
    scores = np.ones((200, 1))
    columns = reader.task_type.columns(rows, reader, np.array(predictions), scores)
    result = metrics.compute(reader.task_type, columns, reader.metrics)
    guesses = [t[1][start:end] for t, (start, end) in zip(texts, predictions, strict=True)]
    assert guesses.count("") > 30 and any(map(bare_words, guesses))
    assert any(gold and not bare_words(gold) for golds in answers for gold in golds)
    assert result == pytest.approx(official(zip(answers, guesses, strict=True), version))


def test_an_answer_without_words_is_empty_and_still_an_answer():
    assert outcome("", ["The"], no_answer=True) == outcome("a!", ["The"], no_answer=True) == (1, 1)
    assert outcome("", ["The", "the cat"], no_answer=True) == (0, 0)
    assert outcome("cat", [], no_answer=True) == (0, 0)
    reader = LabelReader(task_type("span"), {}, (), no_answer=True)
    rows = Rows("f", ["0"], [("who ?", "The cat")], np.array([[0, 3]]), answers=[("The",)])
    columns = reader.task_type.columns(rows, reader, np.array([[0, 0]]), np.ones((1, 1)))
    result = metrics.compute(reader.task_type, columns, reader.metrics)
    assert result["has_ans_f1"] == 1 and np.isnan(result["no_ans_f1"])


def test_the_trivial_guess_and_the_counts_know_of_questions_without_an_answer():
    kind = task_type("span")
    texts, golds = [("who ?", "The cat")] * 3, [("cat",), (), ()]
    rows = Rows("f", [*"abc"], texts, np.array([[4, 7], [0, 0], [0, 0]]), answers=golds)
    reader = LabelReader(kind, {}, (), no_answer=True)
    for train, guess, counts in ((rows, [0, 0], [1, 2]), (rows.take([0]), [0, 7], [1, 0])):
        assert kind.trivial(train, rows, reader)[0].tolist() == [guess] * 3
        assert [*kind.label_counts(train, reader).values()] == counts


@given(st.data())
def test_the_threshold_has_the_highest_f1_of_a_plain_search(data):
    size = data.draw(st.integers(0, 7))

    def numbers(values):
        return data.draw(st.lists(values, min_size=size, max_size=size))

    differences = numbers(st.integers(-4, 4).map(float))
    given_, empty = numbers(st.sampled_from([0, 0.25, 1.0])), numbers(st.sampled_from([0, 1.0]))

    def total(threshold):
        three = zip(differences, given_, empty, strict=True)
        return sum(f1 if d <= threshold else none for d, f1, none in three)

    threshold = best_threshold(*map(np.array, (differences, given_, empty)))
    best = max(map(total, np.arange(-6, 6, 0.5)))
    assert total(threshold) == best
    assert threshold == 0 or total(0) < best
