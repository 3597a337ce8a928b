"""Any number of classes per row.

Labels and predictions are 0 or 1 [N, C] (NaN for a row without a label), scores are probabilities
[N, C]. F1 is over all decisions (micro). Macro F1 averages over the classes that occur in labels or
predictions. ``exact_match`` is the share of rows whose predicted classes are exactly the labels.
``label_accuracy`` is the share of right decisions among rows x classes. ``mcc`` is the mean of the
classes' Matthews coefficients. It is 0 for a class that has one value in labels or predictions.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from multitask.tasks.base import Answer, Array, Columns, Mistake, Record, RowLabels, saved_scores
from multitask.tasks.label_reader import LabelReader, canonical, is_missing, label_text
from multitask.tasks.list_cells import list_in
from multitask.tasks.records import shares
from multitask.tasks.rows import Rows

CALL = re.compile(r"\s*[\w.]*\(")  # how a tuple or an array begins, such as `(1, 2)`
NO_LABEL = (list, dict, tuple, bytes)  # items of a typed file that are not one label


class MultiLabel(RowLabels):
    """Any number of classes per row."""

    name = "labels"
    predicts = "any number of classes"
    gives = "any of {count} classes"
    selects = ("f1", "macro_f1", "exact_match", "label_accuracy", "mcc")
    metrics = selects
    figure_shows = "Share of rows, F1 and MCC of each class of {task} on dev"
    described_by = "labels"
    one_value = False

    def values_in(
        self, cell: Any, unlabelled: Collection[str], separator: str
    ) -> Sequence[str] | None:
        """Return the items of a list, also of a list in text, or a text split at ``separator``."""
        if not isinstance(cell, list | dict):
            text = label_text(cell)
            if is_missing(cell) or canonical(text) in unlabelled:
                return None
            cell = list_in(text)
        if cell is not None:
            if isinstance(cell, dict) or any(isinstance(value, NO_LABEL) for value in cell):
                raise ValueError(f"is {cell!r:.60}: expected a list of labels")
            return [label_text(value) for value in cell]
        parts = [part.strip() for part in text.split(separator) if part.strip()]
        if CALL.match(text) and any(part.count("(") != part.count(")") for part in parts):
            raise ValueError(f"is {text!r:.60}: expected a list such as [2, 6] or ['a', 'b']")
        return parts

    def read(self, values: Sequence[str], reader: LabelReader) -> Array:
        cells = np.zeros(len(reader.names))
        for value in values:
            try:
                cells[int(reader.read(value))] = 1
            except ValueError as error:
                raise ValueError(f"names {value!r:.60}: {error}") from None
        return cells

    def unread(self, count: int, reader: LabelReader) -> Array:
        return np.full((count, len(reader.names)), np.nan)

    def label_counts(self, rows: Rows, reader: LabelReader) -> dict[str, int]:
        counts = np.nansum(rows.gold, axis=0).astype(int).tolist()
        return dict(zip(reader.names, counts, strict=True))

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        gold, predicted = (np.asarray(cells) > 0.5 for cells in columns[:2])

        def counts(cells: Array) -> Array:
            """Count each class in each set of rows: [R, C]."""
            return np.stack([column[rows].sum(axis=1) for column in cells.T], axis=1)

        right = counts(gold & predicted)
        labelled, chosen, size = counts(gold), counts(predicted), rows.shape[1]
        together = labelled + chosen
        occurs = together > 0
        by_class = 2 * right / np.maximum(together, 1)
        exact = (gold == predicted).all(axis=1)
        wrong = (together - 2 * right).sum(axis=1)
        spread = np.sqrt(1.0 * labelled * (size - labelled) * chosen * (size - chosen))
        matthews = (size * right - 1.0 * labelled * chosen) / np.where(spread > 0, spread, np.inf)
        every = {
            "f1": 2 * right.sum(axis=1) / np.maximum(together.sum(axis=1), 1),
            "macro_f1": by_class.sum(axis=1) / np.maximum(occurs.sum(axis=1), 1),
            "exact_match": exact[rows].sum(axis=1) / max(size, 1),
            "label_accuracy": 1 - wrong / max(size * gold.shape[1], 1),
            "mcc": matthews.mean(axis=1),
        }
        undefined = np.full(len(rows), np.nan)
        return {name: every[name] if size else undefined for name in names}

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Predict the classes of more than half the training rows; scores are frequencies."""
        if not len(train.gold):
            raise ValueError("the trivial baseline needs training labels")
        frequencies = np.asarray(train.gold, dtype=float).mean(axis=0)
        guess = (frequencies > 0.5).astype(np.int64)
        return np.tile(guess, (len(dev), 1)), np.tile(frequencies, (len(dev), 1))

    def confusion_columns(self, rows: Rows, reader: LabelReader, predictions: Array) -> None:
        """Return None: a row has no single class."""

    def label(self, rows: Rows, i: int, reader: LabelReader) -> list[int] | None:
        return None if rows.labels is None else _classes_of(rows.labels[i])

    def records(
        self, rows: Rows, reader: LabelReader, predictions: Array, scores: Array
    ) -> Iterator[Record]:
        for i, (cells, shown) in enumerate(zip(predictions, scores, strict=True)):
            chosen = _classes_of(cells)
            yield {
                "label": self.label(rows, i, reader),
                "prediction": chosen,
                "names": [reader.names[number] for number in chosen],
                "scores": shown.tolist(),
            }

    def read_records(self, records: Sequence[Mapping[str, Any]]) -> Columns:
        scores = saved_scores(records)
        columns = []
        for key in ("label", "prediction"):
            cells = np.zeros(scores.shape, dtype=np.int64)
            for row, record in zip(cells, records, strict=True):
                row[list(record[key])] = 1
            columns.append(cells)
        return columns[0], columns[1], scores

    def course_values(self, predictions: Array, reader: LabelReader) -> list[str]:
        """Return a 0 or 1 per class, in the order of the classes: ``[0, 1, 0]``."""
        return [str(row) for row in np.asarray(predictions).astype(int).tolist()]

    def decide(self, scores: Array) -> Array:
        return (scores > 0.5).astype(np.int64)

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        """Return a mistake whose size is the highest probability of a wrong decision."""
        gold, predicted, scores = record["label"], record["prediction"], record["scores"]
        if gold == predicted:
            return None
        wrong_scores = [scores[i] for i in set(gold) ^ set(predicted) if scores[i] is not None]
        size = max((max(score, 1 - score) for score in wrong_scores), default=None)
        named = (", ".join(classes[i] for i in numbers) or "-" for numbers in (gold, predicted))
        return Mistake(size, *named)

    def label_in_words(self, rows: Rows, i: int, reader: LabelReader) -> str:
        named = [reader.names[number] for number in self.label(rows, i, reader) or []]
        return f"labels {', '.join(named) or 'none'}"

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> Answer:
        return {
            "prediction": ", ".join(record["names"]) or "none",
            "shares": shares(reader, record["scores"], record["prediction"]),
        }


def _classes_of(cells: Array) -> list[int]:
    """Return the classes in a row of 0 and 1 [C]."""
    return np.flatnonzero(np.asarray(cells) > 0.5).tolist()
