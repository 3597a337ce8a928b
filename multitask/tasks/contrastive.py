"""Contrastive learning: find the text of a batch that belongs to the first text of a row.

Labels number the texts of each row [N, texts]; equal texts have the same number. Predictions are 1
if the matching text is the nearest of all candidates, else 0 (int [N]). Scores are its probability
[N, 1].
"""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from multitask.tasks.base import Array, Columns, NoLabels
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows


class Contrastive(NoLabels):
    """Contrastive tasks: texts that belong together have near vectors."""

    name = "views"
    predicts = "which texts go together"
    gives = "a vector each, no prediction"
    selects = ("probability", "accuracy")
    metrics = selects
    pipeline = "feature-extraction"
    compares_rows = True

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        every = {"probability": columns[2][:, 0], "accuracy": columns[1]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of a mean of no rows
            return {name: np.asarray(every[name], float)[rows].mean(axis=1) for name in names}

    def label_in_words(self, rows: Rows, i: int, reader: LabelReader) -> str:
        return "no label"

    def labels_in_words(self, counts: Mapping[str, int], reader: LabelReader, views: str) -> str:
        return f"none: {views}"
