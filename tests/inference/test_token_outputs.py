"""Predictions of words and of answers, from what the heads say; and what is measured of them."""

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from multitask.data.tags import placed_tags, words_rows
from multitask.data.tokenize import tokenize
from multitask.inference.token_outputs import span_scores, tag_scores
from multitask.tasks import metrics
from multitask.tasks.examples import LabelReader, Rows
from multitask.tasks.records import confusion_columns, in_words, metric_columns

NAMES = ("B-X", "I-X", "O")
READER = LabelReader("tags", {name: i for i, name in enumerate(NAMES)}, NAMES, scheme="IOB2")


def test_a_word_without_a_piece_keeps_its_place_and_is_outside(tiny_encoder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    rows = words_rows([["the", "", "cat"], ["man"]], "here")
    rows.labels = np.array([[0, 1, 1], [2, -1, -1]])
    tokens = tokenize(rows, tokenizer, siamese=False, max_length=16, characters=True)
    tokens, unseen = placed_tags(rows, tokens)
    assert unseen == 1
    # tag, probability, loss of each word that has a piece
    output = torch.tensor([[[0, 0.5, 0.7], [1, 0.25, 1.4]], [[2, 1.0, 0.0], [0, 0, 0]]])
    predictions, scores, loss = tag_scores(output, rows, tokens)
    assert predictions.tolist() == [[0, -1, 1], [2, -1, -1]]
    assert loss == pytest.approx(2.1 / 3)
    first, second = in_words(rows, READER, predictions, scores)
    assert first["label"] == ["B-X", "I-X", "I-X"]
    assert first["prediction"] == ["B-X", "O", "I-X"]
    assert first["scores"] == [0.5, None, 0.25]
    assert first["measured"] == {
        "entities": 1, "predicted": 1, "right": 0, "words": 3, "right_words": 2,
    }  # fmt: skip
    assert second["measured"]["right_words"] == second["measured"]["words"] == 1
    found = metrics.compute("tags", *metric_columns(rows, READER, predictions, scores))
    assert found == {"f1": 0, "precision": 0, "recall": 0, "accuracy": 0.75}
    gold, guessed = confusion_columns(rows, READER, predictions)
    assert (gold.tolist(), guessed.tolist()) == ([0, 1, 1, 2], [0, 2, 1, 2])


def test_the_window_with_the_highest_logits_answers(tiny_encoder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    rows = Rows("here", ["0", "1"], [("who ?", "the man"), ("who ?", "a cat sees dog")], None)
    options = {"siamese": False, "max_length": 7, "characters": True, "stride": 1}
    tokens = tokenize(rows, tokenizer, **options)
    assert tokens.owners.tolist() == [0, 1, 1, 1]
    # start, end, probability, loss, logits
    output = torch.tensor(
        [
            [4, 5, 0.2, 0.0, -9.0],
            [5, 5, 0.9, 0.0, 1.0],  # "cat"
            [4, 5, 0.3, 0.0, 3.0],  # of "cat sees": both
            [-1, -1, 0.0, 0.0, 0.0],
        ]
    )
    predictions, scores, loss = span_scores(output, rows, tokens)
    assert predictions.tolist() == [[0, 7], [2, 10]]
    assert scores[:, 0].tolist() == pytest.approx([0.2, 0.3]) and np.isnan(loss)
