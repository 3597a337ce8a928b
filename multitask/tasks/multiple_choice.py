"""One of n endings of a context is right.

Labels and predictions are the place of an ending, from 0, int [N]. Scores are the probabilities of
the endings [N, n]. The texts of a row are the context and its endings.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from multitask.tasks.base import Answer, Array, Columns, Mistake, Record, RowLabels
from multitask.tasks.confusion import class_values, frequencies
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows


class MultipleChoice(RowLabels):
    """Choose one of several endings."""

    name = "choice"
    predicts = "which of several endings is right"
    gives = "one of the endings"
    selects = ("accuracy",)
    metrics = selects
    pipeline = "multiple-choice"
    shown_texts = ("context",)  # ``mistake`` has the endings that matter

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        return class_values(columns, rows, names)

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Predict the place that is right most often (the first of equals)."""
        shown = frequencies(train.gold, len(dev.texts[0]) - 1)
        return np.full(len(dev), shown.argmax()), np.tile(shown, (len(dev), 1))

    def records(
        self, rows: Rows, reader: LabelReader, predictions: Array, scores: Array
    ) -> Iterator[Record]:
        """Yield records with the chosen ending as ``name``, and all endings as ``names``."""
        for texts, record in zip(
            rows.texts, super().records(rows, reader, predictions, scores), strict=True
        ):
            endings = list(texts[1:])
            yield {**record, "name": endings[record["prediction"]], "names": endings}

    def label_counts(self, rows: Rows, reader: LabelReader) -> dict[str, int]:
        """Count how often the ending of each place is right."""
        return {str(i): int((rows.gold == i).sum()) for i in range(len(rows.texts[0]) - 1)}

    def decide(self, scores: Array) -> Array:
        return scores.argmax(axis=1)

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        gold, predicted = record["label"], record["prediction"]
        if gold == predicted:
            return None
        endings = record["texts"][1:]
        return Mistake(record["scores"][predicted], endings[gold], endings[predicted])

    def label_in_words(self, rows: Rows, i: int, reader: LabelReader) -> str:
        place = self.label(rows, i, reader)
        return f"ending {place}: {rows.texts[i][1 + place]!r:.60}"

    def labels_in_words(self, counts: Mapping[str, int], reader: LabelReader, views: str) -> str:
        return "one ending of each row: " + super().labels_in_words(counts, reader, views)

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> Answer:
        endings = enumerate(zip(record["names"], record["scores"], strict=True))
        shares = [(name, score, place == record["prediction"]) for place, (name, score) in endings]
        return {"prediction": record["name"], "shares": shares}
