"""Metrics of several classes per row."""

import numpy as np

from multitask.tasks.base import Array


def _label_values(gold: Array, predicted: Array, rows: Array) -> dict[str, Array]:
    """Metrics of several classes at once: bool [N, C] twice, int [R, M] to [R] each."""

    def counts(cells: Array) -> Array:
        """How often each class occurs in each set of rows: [R, C]."""
        return np.stack([column[rows].sum(axis=1) for column in cells.T], axis=1)

    right, known, found = counts(gold & predicted), counts(gold), counts(predicted)
    occurs = known + found > 0
    by_class = 2 * right / np.maximum(known + found, 1)
    together = (known + found).sum(axis=1)
    values = {
        "f1": 2 * right.sum(axis=1) / np.maximum(together, 1),
        "macro_f1": by_class.sum(axis=1) / np.maximum(occurs.sum(axis=1), 1),
        "exact_match": (gold == predicted).all(axis=1)[rows].sum(axis=1) / max(rows.shape[1], 1),
    }
    undefined = np.full(len(rows), np.nan)
    return {name: value if rows.shape[1] else undefined for name, value in values.items()}
