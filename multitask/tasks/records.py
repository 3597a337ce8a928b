"""What a task of words or of answers predicted: in words, and measured row by row."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from multitask.tasks import question_answering as squad
from multitask.tasks import token_classification as tagging
from multitask.tasks.base import Array
from multitask.tasks.examples import LabelReader, Rows
from multitask.tasks.metric_names import OUTCOMES
from multitask.tasks.token_classification import outside


def metric_columns(
    rows: Rows, reader: LabelReader, predictions: Array, scores: Array
) -> tuple[Array, Array, Array]:
    """Labels, predictions and scores of labelled rows as ``multitask.tasks.metrics`` takes them."""
    if reader.label_type not in OUTCOMES:
        return rows.gold, predictions, scores
    measured = np.array([one["measured"] for one in _raw(rows, reader, predictions, scores)])
    return measured[:, 0], measured[:, 0], measured


def confusion_columns(
    rows: Rows, reader: LabelReader, predictions: Array
) -> tuple[Array, Array] | None:
    """Gold and predicted class of every row, or word; None where a row has no single class."""
    if not reader.names or reader.label_type == "labels":
        return None
    if reader.label_type != "tags":
        return rows.gold, predictions
    gold = rows.gold
    inside = gold >= 0
    return gold[inside], np.where(predictions < 0, outside(reader), predictions)[inside]


def numbers_of(cells: Array) -> list[int]:
    """Which classes of a row of several, 0/1 [C], are there."""
    found: list[int] = np.flatnonzero(np.asarray(cells) > 0.5).tolist()
    return found


def cells_of(numbers: Sequence[int], classes: int) -> Array:
    """The reverse: 0/1 [C]. Raises IndexError for a class outside them."""
    cells = np.zeros(classes, dtype=np.int64)
    cells[list(numbers)] = 1
    return cells


def in_words(
    rows: Rows, reader: LabelReader, predictions: Array, scores: Array
) -> Iterator[dict[str, Any]]:
    """What the model says of each row, and with labels what is right: as prediction files hold it.

    Of tagged words ``words``, ``label``, ``prediction`` (tags) and ``scores`` (the probability of
    each predicted tag, null for a word that was cut off); of a question ``label`` (its answers),
    ``prediction``, ``start``, ``end`` (characters of the context) and ``scores`` (the span's
    probability). ``measured`` has the columns of ``OUTCOMES`` by name.
    """
    for one in _raw(rows, reader, predictions, scores):
        names = OUTCOMES[reader.label_type]
        known = one["measured"] is not None
        one["measured"] = dict(zip(names, one["measured"], strict=True)) if known else None
        yield one


def _raw(
    rows: Rows, reader: LabelReader, predictions: Array, scores: Array
) -> Iterator[dict[str, Any]]:
    labelled = rows.labels is not None
    for i in range(len(rows)):
        measured: Any = None
        if reader.label_type == "span":
            start, end = predictions[i].tolist()
            text = rows.texts[i][1][start:end]
            answers = rows.answers[i] if labelled and rows.answers else None
            if answers is not None:
                measured = squad.outcome(text, answers)
            yield {
                "label": None if answers is None else list(answers),
                "prediction": text,
                "start": start,
                "end": end,
                "scores": [round(float(scores[i, 0]), 6)],
                "measured": measured,
            }
            continue
        words = (rows.words or [])[i]
        numbers = np.where(predictions[i] < 0, outside(reader), predictions[i])[: len(words)]
        tags = [reader.names[number] for number in numbers]
        gold = None
        if labelled:
            gold = [reader.names[number] for number in rows.gold[i, : len(words)]]
            measured = tagging.outcome(gold, tags, reader.scheme)
        shown = [None if np.isnan(one) else round(float(one), 6) for one in scores[i, : len(words)]]
        yield {
            "words": list(words),
            "label": gold,
            "prediction": tags,
            "scores": shown,
            "measured": measured,
        }
