"""One class per row.

Labels and predictions are int [N], scores are probabilities [N, C]. The metrics:

- F1 follows scikit-learn: 0 if neither labels nor predictions have a positive.
- Macro F1 averages over the classes that occur in labels or predictions, so a class that a small
  set lacks does not lower it.
- ``mcc`` is Matthews' correlation coefficient R_K (Gorodkin 2004), 0 if labels or predictions are
  constant.
- ``mae`` is the mean distance in classes between prediction and label, for ordered classes alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multitask.tasks.base import Answer, Array, Columns, Mistake, RowLabels
from multitask.tasks.confusion import class_values, frequencies
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.records import class_answer
from multitask.tasks.rows import Rows


class Classification(RowLabels):
    """One of several classes."""

    name = "class"
    predicts = "classes"
    gives = "{count} classes"
    selects = ("accuracy", "macro_f1", "mcc")
    metrics = (*selects, "mae")
    of_ordered = ("mae",)
    figure_shows = "Confusion matrix of {task} on dev"
    described_by = "labels"

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        return class_values(columns, rows, names)

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Predict the majority class (the first of equals); scores are training frequencies."""
        shown = frequencies(train.gold, len(reader.names))
        return np.full(len(dev), shown.argmax()), np.tile(shown, (len(dev), 1))

    def decide(self, scores: Array) -> Array:
        return scores.argmax(axis=1)

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        gold, predicted = record["label"], record["prediction"]
        if gold == predicted:
            return None
        return Mistake(record["scores"][predicted], classes[gold], classes[predicted])

    def course_values(self, predictions: Array, reader: LabelReader) -> list[str]:
        """Return classes as the values in the data files."""
        value_of = {number: value for value, number in reversed(reader.ids.items())}
        return [value_of[int(prediction)] for prediction in predictions]

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> Answer:
        return class_answer(record, reader)
