"""Class metrics written out naively, columns of labels, and the trivial model."""

import math

import numpy as np
from hypothesis import strategies as st

from multitask.config.registry import task_type
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows


def guess(name, labels, count, classes=0):
    """Predictions and scores of the trivial model for ``count`` rows."""
    reader = LabelReader(task_type(name), {}, tuple(map(str, range(classes))))
    train, dev = (Rows("", [""] * n, [("",)] * n, None) for n in (len(labels), count))
    train.labels = labels
    return task_type(name).trivial(train, dev, reader)


def naive_f1(labels, predictions, positive):
    hits = sum(g == p == positive for g, p in zip(labels, predictions, strict=True))
    wrong = sum(g != p == positive for g, p in zip(labels, predictions, strict=True))
    missed = sum(p != g == positive for g, p in zip(labels, predictions, strict=True))
    if hits == 0:
        return 0.0
    precision, recall = hits / (hits + wrong), hits / (hits + missed)
    return 2 * precision * recall / (precision + recall)


def naive_mcc(labels, predictions):
    """Correlation of one-hot labels and predictions, over all classes; 0 where one is constant."""
    classes = sorted({*labels.tolist(), *predictions.tolist()})
    sides = [[[float(x == c) for x in side] for c in classes] for side in (labels, predictions)]
    centred = [[[v - sum(c) / len(c) for v in c] for c in side] for side in sides]

    def covariance(one, two):
        return math.fsum(
            x * y for a, b in zip(one, two, strict=True) for x, y in zip(a, b, strict=True)
        )

    gold, result = centred
    if len(set(labels.tolist())) < 2 or len(set(predictions.tolist())) < 2:
        return 0.0
    return covariance(gold, result) / math.sqrt(covariance(gold, gold) * covariance(result, result))


def two_columns(elements):
    """Pairs of equally long lists."""
    return st.lists(st.tuples(elements, elements), min_size=1, max_size=40).map(
        lambda rows: tuple(np.array(column) for column in zip(*rows, strict=True))
    )
