"""Metrics of one class per row: from confusion matrices of resampled rows."""

import numpy as np

from multitask.tasks.base import Array, _count, _divide


def _confusions(labels: Array, predictions: Array, num_classes: int, rows: Array) -> Array:
    """Confusion matrix of each set of rows [R, M]: int [R, C, C], gold first."""
    pairs = (np.asarray(labels, dtype=np.int64), np.asarray(predictions, dtype=np.int64))
    cells = np.ravel_multi_index(pairs, (num_classes, num_classes))
    return _count(cells[rows], num_classes**2).reshape(-1, num_classes, num_classes)


def _class_value(name: str, counts: Array) -> Array:
    """A metric of the confusion matrices [R, C, C]: [R]."""
    if name == "accuracy":
        return _divide(counts.trace(axis1=1, axis2=2), counts.sum(axis=(1, 2)))
    if name == "mae":
        classes = np.arange(counts.shape[1])
        distance = np.abs(classes[:, None] - classes)
        return _divide((counts * distance).sum(axis=(1, 2)), counts.sum(axis=(1, 2)))
    if name == "mcc":
        return _matthews(counts)
    f1, occurs = _f1(counts)
    if name == "macro_f1":
        return _divide(f1.sum(axis=1), occurs.sum(axis=1))
    return np.where(counts.any(axis=(1, 2)), f1[:, 1], np.nan)


def _f1(counts: Array) -> tuple[Array, Array]:
    """F1 of each class and whether it occurs at all, both [R, C], from counts [R, C, C]."""
    hits = counts.diagonal(axis1=1, axis2=2)
    gold_and_predicted = counts.sum(axis=1) + counts.sum(axis=2)
    return 2 * hits / np.maximum(gold_and_predicted, 1), gold_and_predicted > 0


def _matthews(counts: Array) -> Array:
    """Matthews' correlation coefficient of confusion matrices [R, C, C]: [R]."""
    whole = counts.sum(axis=(1, 2)).astype(float)
    gold, predicted = counts.sum(axis=2).astype(float), counts.sum(axis=1).astype(float)
    together = counts.trace(axis1=1, axis2=2) * whole - (gold * predicted).sum(axis=1)
    spread = np.sqrt((whole**2 - (gold**2).sum(axis=1)) * (whole**2 - (predicted**2).sum(axis=1)))
    value = np.where(spread > 0, together / np.where(spread > 0, spread, 1.0), 0.0)
    return np.where(whole > 0, value, np.nan)


def _average_precision(labels: Array, scores: Array, rows: Array) -> Array:
    """Sum over score thresholds of (recall gained) x (precision there), for each set of rows.

    ``labels`` 0/1 [N], ``scores`` [N], ``rows`` [R, M]: [R]. Rows of equal score share a threshold.
    """
    if np.isnan(scores).any() or not len(scores):
        return np.full(len(rows), np.nan)
    order = np.argsort(-scores)
    thresholds = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    weights = _count(rows, len(order))[:, order]
    positives = np.cumsum(weights * labels[order], axis=1)[:, thresholds]
    retrieved = np.cumsum(weights, axis=1)[:, thresholds]
    precision = positives / np.maximum(retrieved, 1)
    gained = np.diff(positives, axis=1, prepend=0)
    return _divide((gained * precision).sum(axis=1), positives[:, -1])
