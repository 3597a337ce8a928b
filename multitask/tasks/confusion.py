"""Metrics of one class per row, from the confusion matrices of resampled rows."""

from collections.abc import Sequence

import numpy as np

from multitask.tasks.base import Array, Columns, count, divide


def confusions(labels: Array, predictions: Array, classes: int, rows: Array) -> Array:
    """Compute the confusion matrix of each set of rows [R, M]: int [R, C, C], gold first.

    Raises ValueError for a label or prediction outside the classes. scikit-learn's function
    takes one set of rows at a time and silently ignores such labels.
    """
    pairs = (np.asarray(labels, dtype=np.int64), np.asarray(predictions, dtype=np.int64))
    cells = np.ravel_multi_index(pairs, (classes, classes))
    return count(cells[rows], classes**2).reshape(-1, classes, classes)


def confusion(labels: Array, predictions: Array, classes: int) -> list[list[int]]:
    """Count rows per gold class (first index) and predicted class: [C][C]; see ``confusions``."""
    every_row = np.arange(len(labels))[None]
    counts: list[list[int]] = confusions(labels, predictions, classes, every_row)[0].tolist()
    return counts


def class_values(columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
    """Compute metrics of one class per row, whose scores are [N, C]; see ``TaskType.values``."""
    labels, predictions, scores = columns
    counts = confusions(labels, predictions, scores.shape[1], rows)
    return {name: class_value(name, counts) for name in names}


def class_value(name: str, counts: Array) -> Array:
    """Compute a metric from confusion matrices [R, C, C]: [R]."""
    if name == "accuracy":
        return divide(counts.trace(axis1=1, axis2=2), counts.sum(axis=(1, 2)))
    if name == "mae":
        classes = np.arange(counts.shape[1])
        distance = np.abs(classes[:, None] - classes)
        return divide((counts * distance).sum(axis=(1, 2)), counts.sum(axis=(1, 2)))
    if name == "mcc":
        return _matthews(counts)
    hits = counts.diagonal(axis1=1, axis2=2)
    gold_and_predicted = counts.sum(axis=1) + counts.sum(axis=2)
    f1 = 2 * hits / np.maximum(gold_and_predicted, 1)
    if name == "macro_f1":
        return divide(f1.sum(axis=1), (gold_and_predicted > 0).sum(axis=1))
    return np.where(counts.any(axis=(1, 2)), f1[:, 1], np.nan)


def _matthews(counts: Array) -> Array:
    """Compute Matthews' correlation coefficient from confusion matrices [R, C, C]: [R]."""
    total = counts.sum(axis=(1, 2)).astype(float)
    gold, predicted = counts.sum(axis=2).astype(float), counts.sum(axis=1).astype(float)
    together = counts.trace(axis1=1, axis2=2) * total - (gold * predicted).sum(axis=1)
    spread = np.sqrt((total**2 - (gold**2).sum(axis=1)) * (total**2 - (predicted**2).sum(axis=1)))
    value = np.where(spread > 0, together / np.where(spread > 0, spread, 1.0), 0.0)
    return np.where(total > 0, value, np.nan)


def frequencies(labels: Array, classes: int) -> Array:
    """Return the share of each class in labels [N]. Raises ValueError without labels."""
    if not len(labels):
        raise ValueError("the trivial baseline needs training labels")
    counts = np.bincount(np.asarray(labels, dtype=np.int64), minlength=classes)
    return counts / counts.sum()
