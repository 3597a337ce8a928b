"""One of two classes per row, from one logit.

Labels and predictions are 0 or 1 [N], scores are the probability of 1 [N, 1]. The average precision
is NaN for a set without positives or with NaN scores, and 1 for a set with positives only. The
other metrics are defined in ``classification``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multitask.tasks.base import Answer, Array, Columns, Mistake, RowLabels, count, divide
from multitask.tasks.confusion import class_value, confusions, frequencies
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.records import class_answer
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError


class Binary(RowLabels):
    """One of two classes."""

    name = "binary"
    predicts = "two classes"
    gives = "{names}"
    selects = ("accuracy", "f1", "average_precision", "mcc")
    metrics = selects
    of_scores = ("average_precision",)
    figure_shows = "Confusion matrix of {task} on dev"
    described_by = "labels"
    default_labels = {"0": "0", "1": "1", "false": "0", "true": "1"}

    def check_classes(self, names: Sequence[str], scheme: str) -> None:
        if len(names) != 2:
            raise UserError(f"the head takes 2 classes, not {len(names)}")

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        labels, predictions, scores = columns
        counts = confusions(labels, predictions, 2, rows)
        return {
            name: _average_precision(labels, scores[:, 0], rows)
            if name == "average_precision"
            else class_value(name, counts)
            for name in names
        }

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Predict the majority class (0 if equal); the score is the frequency of 1."""
        shown = frequencies(train.gold, 2)
        return np.full(len(dev), shown.argmax()), np.full((len(dev), 1), shown[1])

    def decide(self, scores: Array) -> Array:
        return (scores[:, 0] > 0.5).astype(np.int64)

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        gold, predicted, (score,) = record["label"], record["prediction"], record["scores"]
        if gold == predicted:
            return None
        size = None if score is None else max(score, 1 - score)
        return Mistake(size, classes[gold], classes[predicted])

    def course_values(self, predictions: Array, reader: LabelReader) -> list[str]:
        """Return 0.0 or 1.0 per row."""
        return [f"{float(prediction):.1f}" for prediction in predictions]

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> Answer:
        return class_answer(record, reader)


def _average_precision(labels: Array, scores: Array, rows: Array) -> Array:
    """Sum (gain in recall) x (precision) over score thresholds, for each set of rows.

    ``labels`` 0/1 [N], ``scores`` [N], ``rows`` [R, M]: [R]. Rows of equal score share a threshold.
    """
    if np.isnan(scores).any() or not len(scores):
        return np.full(len(rows), np.nan)
    order = np.argsort(-scores)
    thresholds = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    weights = count(rows, len(order))[:, order]
    positives = np.cumsum(weights * labels[order], axis=1)[:, thresholds]
    retrieved = np.cumsum(weights, axis=1)[:, thresholds]
    precision = positives / np.maximum(retrieved, 1)
    gained = np.diff(positives, axis=1, prepend=0)
    return divide((gained * precision).sum(axis=1), positives[:, -1])
