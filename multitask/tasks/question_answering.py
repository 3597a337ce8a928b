"""Extractive question answering: the answer is a part of a text (SQuAD v1.1).

Labels and predictions are the start and end of the answer in characters, end excluded, int [N, 2].
Scores are its probability [N, 1]. Exact match and F1 are computed per row as in the official
script, but from 0 to 1 (Rajpurkar et al. 2016;
https://worksheets.codalab.org/rest/bundles/0xbcd57bee090b421c982906709c8c27e1).
"""

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from multitask.tasks.base import Answer, Array, Columns, Mistake, Record, WordLabels, divide
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows

PUNCTUATION = str.maketrans("", "", string.punctuation)


class QuestionAnswering(WordLabels):
    """Find the answer to a question in a text."""

    name = "span"
    predicts = "where an answer is"
    gives = "an answer to the first in the second"
    selects = ("f1", "exact_match")
    metrics = selects
    pipeline = "question-answering"
    measured = selects

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        measured = np.asarray(columns[2], float)
        size = np.asarray(rows.shape[1], float)
        every = dict(zip(self.measured, measured.T, strict=True))
        return {name: divide(every[name][rows].sum(axis=1), size) for name in names}

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Predict the complete text as the answer."""
        guess = np.array([[0, len(texts[1])] for texts in dev.texts])
        return guess, np.ones((len(dev), 1))

    def label(self, rows: Rows, i: int, reader: LabelReader) -> list[str] | None:
        """Return all answers of the row."""
        return list(rows.answers[i]) if rows.labels is not None and rows.answers else None

    def records(
        self, rows: Rows, reader: LabelReader, predictions: Array, scores: Array
    ) -> Iterator[Record]:
        """Yield records; ``start`` and ``end`` count characters of the second text."""
        for i, (start, end) in enumerate(predictions.tolist()):
            text, answers = rows.texts[i][1][start:end], self.label(rows, i, reader)
            measured = None if answers is None else outcome(text, answers)
            yield {
                "label": answers,
                "prediction": text,
                "start": start,
                "end": end,
                "scores": [round(float(scores[i, 0]), 6)],
                "measured": measured and dict(zip(self.measured, measured, strict=True)),
            }

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        if record["measured"]["exact_match"]:
            return None
        return Mistake(record["scores"][0], " | ".join(record["label"]), record["prediction"])

    def label_in_words(self, rows: Rows, i: int, reader: LabelReader) -> str:
        start, end = rows.gold[i]
        return f"answer {rows.texts[i][1][start:end]!r}"

    def labels_in_words(self, counts: Mapping[str, int], reader: LabelReader, views: str) -> str:
        return "answers in the context"

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> Answer:
        chance, start, end = record["scores"][0], record["start"], record["end"]
        note = f"Probability {chance:.2f}; characters {start} to {end} of the second text."
        return {"prediction": record["prediction"] or "no answer", "notes": [note]}


def normalised(text: str) -> str:
    """Lower-case a text and remove punctuation, articles and double spaces, in this order."""
    bare = text.lower().translate(PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def word_f1(predicted: str, gold: str) -> float:
    """Compute the F1 of the words in both texts, counted with repeats; 0 if none is shared."""
    words, gold_words = normalised(predicted).split(), normalised(gold).split()
    shared = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * shared / (len(words) + len(gold_words)) if shared else 0.0


def outcome(predicted: str, answers: Sequence[str]) -> tuple[float, float]:
    """Return F1 and exact match of one row, each the best over its answers."""
    exact = any(normalised(predicted) == normalised(gold) for gold in answers)
    return max(word_f1(predicted, gold) for gold in answers), float(exact)
