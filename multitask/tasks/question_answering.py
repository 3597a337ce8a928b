"""Extractive question answering: the answer is a part of a text (SQuAD).

Labels and predictions are the start and end of the answer in characters, end excluded, int [N, 2];
(0, 0) means that there is no answer. Scores are the probability of the prediction [N, 1]. Exact
match and F1 are computed per row as in the official scripts, but from 0 to 1:

- v1.1: https://worksheets.codalab.org/rest/bundles/0xbcd57bee090b421c982906709c8c27e1
- v2.0, if questions may have no answer (``LabelReader.no_answer``):
  https://worksheets.codalab.org/bundles/0x6b567e1cf2e041ec80d7098f031c5c9e
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

ANSWERED, NO_ANSWER = "answers in the context", "no answer"
PUNCTUATION = str.maketrans("", "", string.punctuation)


class QuestionAnswering(WordLabels):
    """Find the answer to a question in a text."""

    name = "span"
    predicts = "where an answer is"
    gives = "an answer to the first in the second"
    selects = ("f1", "exact_match")
    metrics = (*selects, "has_ans_f1", "no_ans_f1")
    of_no_answer = ("has_ans_f1", "no_ans_f1")
    pipeline = "question-answering"
    measured = selects

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        f1, exact, answered = np.asarray(columns[2], float).T
        every = np.ones(len(f1))
        parts = {  # values per row, and the rows that count
            "f1": (f1, every),
            "exact_match": (exact, every),
            "has_ans_f1": (f1 * answered, answered),
            "no_ans_f1": (f1 * (1 - answered), 1 - answered),
        }
        sums = {name: [part[rows].sum(axis=1) for part in parts[name]] for name in names}
        return {name: divide(*both) for name, both in sums.items()}

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Predict the complete text; no answer if a training question has none."""
        guess = np.array([[0, len(texts[1])] for texts in dev.texts])
        return guess * train.gold[:, 1].all(), np.ones((len(dev), 1))

    def label_counts(self, rows: Rows, reader: LabelReader) -> dict[str, int]:
        """Count the rows with and without an answer, if questions may have none."""
        if not reader.no_answer:
            return {}
        answered = int((rows.gold[:, 1] > 0).sum())
        return {ANSWERED: answered, NO_ANSWER: len(rows) - answered}

    def label(self, rows: Rows, i: int, reader: LabelReader) -> list[str] | None:
        """Return all answers of the row."""
        return list(rows.answers[i]) if rows.labels is not None and rows.answers else None

    def records(
        self, rows: Rows, reader: LabelReader, predictions: Array, scores: Array
    ) -> Iterator[Record]:
        """Yield records; ``start`` and ``end`` count characters of the second text.

        Without an answer both are 0, and the label is an empty list.
        """
        for i, (start, end) in enumerate(predictions.tolist()):
            text, answers = rows.texts[i][1][start:end], self.label(rows, i, reader)
            measured = None
            if answers is not None:
                measured = outcome(text, answers, no_answer=reader.no_answer)
            yield {
                "label": answers,
                "prediction": text,
                "start": start,
                "end": end,
                "scores": [round(float(scores[i, 0]), 6)],
                "measured": measured and dict(zip(self.measured, measured, strict=True)),
            }

    def read_records(self, records: Sequence[Mapping[str, Any]]) -> Columns:
        """Return the columns; scores are F1, exact match, and 1 for a row with an answer."""
        labels, predictions, measured = super().read_records(records)
        answered = np.array([bool(record["label"]) for record in records], dtype=float)
        return labels, predictions, np.column_stack([measured, answered])

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        if record["measured"]["exact_match"]:
            return None
        answers = " | ".join(record["label"]) or NO_ANSWER
        return Mistake(record["scores"][0], answers, record["prediction"] or NO_ANSWER)

    def label_in_words(self, rows: Rows, i: int, reader: LabelReader) -> str:
        start, end = rows.gold[i]
        return f"answer {rows.texts[i][1][start:end]!r}" if end else NO_ANSWER

    def labels_in_words(self, counts: Mapping[str, int], reader: LabelReader, views: str) -> str:
        return super().labels_in_words(counts, reader, views) or ANSWERED

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> Answer:
        chance, start, end = record["scores"][0], record["start"], record["end"]
        where = f"; characters {start} to {end} of the second text" if end else ""
        note = f"Probability {chance:.2f}{where}."
        return {"prediction": record["prediction"] or NO_ANSWER, "notes": [note]}


def normalised(text: str) -> str:
    """Lower-case a text and remove punctuation, articles and double spaces, in this order."""
    bare = text.lower().translate(PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def word_f1(predicted: str, gold: str) -> float:
    """Compute the F1 of the words in both texts, counted with repeats; 0 if none is shared."""
    words, gold_words = normalised(predicted).split(), normalised(gold).split()
    shared = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * shared / (len(words) + len(gold_words)) if shared else 0.0


def outcome(
    predicted: str, answers: Sequence[str], *, no_answer: bool = False
) -> tuple[float, float]:
    """Return F1 and exact match of one row, each the best over its answers.

    With ``no_answer``, as in the v2.0 script, answers that are empty when normalised do not count.
    If no other is left, an empty prediction is right.
    """
    if no_answer:
        answers = [gold for gold in answers if normalised(gold)] or [""]
    exact = float(any(normalised(predicted) == normalised(gold) for gold in answers))
    if no_answer and answers == [""]:
        return exact, exact
    return max(word_f1(predicted, gold) for gold in answers), exact


def best_threshold(differences: Array, given: Array, empty: Array) -> float:
    """Return the threshold with the highest total F1: a row with difference <= it is answered.

    It is 0 if no other threshold is better. Else it is in the middle between the differences of two
    rows, or 1 from that of the first or the last row.

    Args:
        differences: the score of "no answer" minus that of the best answer, per row.
        given: the F1 of each row's best answer.
        empty: the F1 of each row without an answer.
    """
    if not len(differences):
        return 0.0
    order = np.argsort(differences, kind="stable")
    ordered = differences[order]
    # the first k rows are answered for a threshold in [lows[k], highs[k])
    totals = np.concatenate([[0.0], np.cumsum((given - empty)[order])]).round(9)
    first, last = min(ordered[0], 0) - 2, max(ordered[-1], 0) + 2
    bounds = np.concatenate([[first], ordered, [last]])
    lows, highs = bounds[:-1], bounds[1:]
    thresholds = np.where((lows <= 0) & (highs > 0), 0.0, (lows + highs) / 2)
    possible = lows < highs  # equal differences are answered together
    best = thresholds[possible & (totals == totals[possible].max())]
    return float(best[np.abs(best).argmin()])
