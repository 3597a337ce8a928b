"""Metrics of numbers: Pearson, Spearman, mean squared error."""

import warnings

import numpy as np

from multitask.tasks.base import Array, _divide


def _number_value(name: str, labels: Array, predictions: Array) -> Array:
    """Pearson, Spearman (ties share their mean rank), mean squared error: [R, M] to [R]."""
    from scipy.stats import rankdata

    if name == "pearson":
        return _pearson(labels, predictions)
    if name == "spearman":
        return _pearson(rankdata(labels, axis=1), rankdata(predictions, axis=1))
    with np.errstate(all="ignore"):
        squares = ((labels - predictions) ** 2).sum(axis=1)
    return _divide(squares, np.asarray(labels.shape[1]))


def _pearson(left: Array, right: Array) -> Array:
    """Pearson correlation of each row: [R, M] twice to [R]; NaN where one side is constant."""
    from scipy.stats import pearsonr

    if left.shape[1] < 2:
        return np.full(len(left), np.nan)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        correlation: Array = np.asarray(pearsonr(left, right, axis=1).statistic)
    return correlation
