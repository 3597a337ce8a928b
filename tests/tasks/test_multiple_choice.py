"""The task type of several choices: metric, trivial baseline, records, mistakes, answers."""

import numpy as np
import pytest

from multitask.config.registry import task_type
from multitask.tasks import metrics
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.records import file_records, predicted_records
from multitask.tasks.rows import Rows

KIND = task_type("choice")
READER = LabelReader(KIND, {}, ())
TEXTS = [("where ?", "here", "there", "near"), ("why ?", "is", "was", "does")]
ROWS = Rows("rows", ["a", "b"], TEXTS, np.array([2, 0]))
SCORES = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
PREDICTIONS = np.array([1, 0])


def test_accuracy_is_the_share_of_rows_with_the_right_place():
    columns = KIND.columns(ROWS, READER, PREDICTIONS, SCORES)
    assert metrics.compute(KIND, columns) == {"accuracy": 0.5}
    drawn = KIND.values(columns, np.array([[0, 0], [1, 1], [0, 1]]), ["accuracy"])
    assert drawn["accuracy"].tolist() == [0, 1, 0.5]


def test_a_place_outside_the_endings_is_an_error():
    columns = np.array([3, 0]), PREDICTIONS, SCORES
    with pytest.raises(ValueError):
        metrics.compute(KIND, columns)


def test_the_trivial_baseline_is_the_place_that_is_right_most_often():
    train = Rows("train", list("abcd"), [TEXTS[0]] * 4, np.array([2, 0, 2, 1]))
    predictions, scores = KIND.trivial(train, ROWS, READER)
    assert predictions.tolist() == [2, 2]
    assert scores.tolist() == [[0.25, 0.25, 0.5]] * 2


def test_records_have_the_endings_and_files_have_them_in_the_texts_alone():
    shown = predicted_records(ROWS, READER, PREDICTIONS, SCORES)
    first = {"prediction": 1, "scores": [0.2, 0.5, 0.3], "name": "there"}
    assert shown[0] == {**first, "names": ["here", "there", "near"]}
    saved = list(file_records(ROWS, READER, PREDICTIONS, SCORES))
    wanted = {"id": "a", "texts": TEXTS[0], "label": 2, "prediction": 1}
    assert saved[0] == {**wanted, "scores": [0.2, 0.5, 0.3]}
    labels, predictions, scores = KIND.read_records(saved)
    assert labels.tolist() == [2, 0] and predictions.tolist() == [1, 0]
    assert scores.tolist() == SCORES.tolist()


def test_a_mistake_names_both_endings():
    wrong, right = file_records(ROWS, READER, PREDICTIONS, SCORES)
    assert KIND.mistake(wrong, ()) == (0.5, "near", "there")
    assert KIND.mistake(right, ()) is None


def test_averaged_scores_choose_the_highest():
    assert KIND.decide(SCORES).tolist() == [1, 0]


def test_an_answer_for_the_page_has_a_share_per_ending():
    (record, _) = predicted_records(ROWS, READER, PREDICTIONS, SCORES)
    shares = [("here", 0.2, False), ("there", 0.5, True), ("near", 0.3, False)]
    assert KIND.answer(record, READER) == {"prediction": "there", "shares": shares}


def test_a_label_in_words():
    assert KIND.label_in_words(ROWS, 0, READER) == "ending 2: 'near'"
