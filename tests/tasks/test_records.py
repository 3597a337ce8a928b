"""Records of predictions: what prediction files, Python and the page show of them."""

import numpy as np

from multitask.config.registry import task_type
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.records import file_records, predicted_records, shares, with_both_scores
from multitask.tasks.rows import Rows

READER = LabelReader(task_type("class"), {"0": 0, "1": 1}, ("bad", "good"))
ROWS = Rows("f", ["a", "b"], [("x",), ("y",)], np.array([1, 0]))
OUTPUT = np.array([1, 1]), np.array([[0.12345678, 0.87654322], [0.5, 0.5]])


def test_a_file_has_ids_texts_and_labels():
    first, second = file_records(ROWS, READER, *OUTPUT)
    assert first == {
        "id": "a",
        "texts": ("x",),
        "label": 1,
        "prediction": 1,
        "scores": [0.12345678, 0.87654322],
    }
    assert (second["id"], second["label"]) == ("b", 0)


def test_scores_in_a_file_rank_as_in_memory():
    near = np.float32(0.9999990) + np.arange(4, dtype=np.float32) * np.float32(2**-24)
    rows = Rows("f", list("abcd"), [("x",)] * 4, np.zeros(4))
    records = file_records(rows, READER, np.ones(4, dtype=int), near[:, None])
    saved = [record["scores"][0] for record in records]
    assert saved == sorted(saved) and len(set(saved)) == 4
    assert np.array_equal(np.float32(saved), near)


def test_python_gets_names_and_all_digits_and_no_labels():
    result = predicted_records(ROWS, READER, *OUTPUT)
    assert result[0] == {"prediction": 1, "scores": [0.12345678, 0.87654322], "name": "good"}


def test_shares_name_the_classes_and_mark_the_chosen():
    assert shares(READER, [0.2, 0.8], [1]) == [("bad", 0.2, False), ("good", 0.8, True)]


def test_two_classes_have_both_probabilities():
    reader = LabelReader(task_type("binary"), {"0": 0, "1": 1}, ("bad", "good"))
    records = predicted_records(ROWS, reader, np.array([0, 1]), np.array([[0.0], [0.75]]))
    assert [record["scores"] for record in with_both_scores(records)] == [[1, 0], [0.25, 0.75]]
