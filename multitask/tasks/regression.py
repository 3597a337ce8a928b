"""One number per row, on the scale of ``data.label_range``.

Labels and predictions are float [N], scores are the predictions [N, 1]. The head clips predictions
to the scale, so that the numbers in files are those that are scored. A correlation is NaN if
one side is constant or not finite, or if all predictions are equal but for rounding.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multitask.tasks.base import Answer, Array, Columns, Mistake, RowLabels, divide, saved_scores
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows

# predictions are computed in float32, in steps of 1.2e-7 of a number: a spread of some eight steps
# or less is rounding, such as that of another batch, and says nothing about the rows
ROUNDING = 1e-6


class Regression(RowLabels):
    """Predict a number."""

    name = "number"
    predicts = "a number"
    gives = "a number from {low:g} to {high:g}"
    selects = ("pearson", "spearman")
    metrics = (*selects, "mse")
    pipeline = "sentence-similarity"
    figure_shows = "Predicted against gold numbers of {task} on dev"
    mistakes_by = "error"
    described_by = "label_range"

    def unread(self, count: int, reader: LabelReader) -> Array:
        return np.full(count, np.nan)

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        sides = [np.asarray(side, dtype=np.float64)[rows] for side in columns[:2]]
        return {name: _value(name, *sides) for name in names}

    def trivial(self, train: Rows, dev: Rows, reader: LabelReader) -> tuple[Array, Array]:
        """Predict the mean of the training labels."""
        if not len(train.gold):
            raise ValueError("the trivial baseline needs training labels")
        mean = float(np.mean(train.gold))
        return np.full(len(dev), mean), np.full((len(dev), 1), mean)

    def read_records(self, records: Sequence[Mapping[str, Any]]) -> Columns:
        """Take predictions from the scores: old runs report the score of numbers before clipping,
        which only their ``scores`` have."""
        scores = saved_scores(records)
        labels = np.array([float(record["label"]) for record in records])
        return labels, scores[:, 0], scores

    def decide(self, scores: Array) -> Array:
        return scores[:, 0]

    def mistake(self, record: Mapping[str, Any], classes: Sequence[str]) -> Mistake | None:
        """Return a mistake whose size is the distance to the gold number."""
        gold, predicted = record["label"], record["prediction"]
        if gold == predicted:
            return None
        return Mistake(abs(float(predicted) - float(gold)), f"{gold:.2f}", f"{predicted:.2f}")

    def label_in_words(self, rows: Rows, i: int, reader: LabelReader) -> str:
        return f"label {rows.gold[i]:g}"

    def labels_in_words(self, counts: Mapping[str, int], reader: LabelReader, views: str) -> str:
        return f"numbers from {reader.low:g} to {reader.high:g}"

    def answer(self, record: Mapping[str, Any], reader: LabelReader) -> Answer:
        number = record["prediction"]
        return {
            "prediction": f"{number:.3f}",
            "number": number,
            "low": reader.low,
            "high": reader.high,
        }


def correlation(name: str, left: Array, right: Array) -> float:
    """Compute the ``pearson`` or ``spearman`` correlation of two columns [N]."""
    sides = [np.asarray(side, dtype=np.float64)[None] for side in (left, right)]
    return float(_value(name, *sides)[0])


def _value(name: str, labels: Array, predictions: Array) -> Array:
    """Compute Pearson, Spearman (ties get their mean rank) or the mean squared error: [R]."""
    from scipy.stats import rankdata

    if name == "mse":
        with np.errstate(all="ignore"):
            squares = ((labels - predictions) ** 2).sum(axis=1)
        return divide(squares, np.asarray(labels.shape[1]))
    if labels.shape[1] < 2:
        return np.full(len(labels), np.nan)
    predictions = _without_noise(predictions)
    if name == "pearson":
        return _pearson(labels, predictions)
    return _pearson(rankdata(labels, axis=1), rankdata(predictions, axis=1))


def _without_noise(predictions: Array) -> Array:
    """Replace predictions [R, M] by one number in each row where only rounding tells them apart."""
    with np.errstate(all="ignore"):
        noise = ROUNDING * np.abs(predictions).max(axis=1)
        alike = np.ptp(predictions, axis=1) <= noise
    return np.where(alike[:, None], predictions[:, :1], predictions)


def _pearson(left: Array, right: Array) -> Array:
    """Compute the Pearson correlation per row, [R, M] each -> [R]; NaN if a side is constant."""
    from scipy.stats import pearsonr

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        correlations: Array = np.asarray(pearsonr(left, right, axis=1).statistic)
    return correlations
