"""Random labels, predictions and scores of task types, and class metrics written out naively."""

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


def binary_set(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.random((rows, 1)).round(2)
    labels = (generator.random(rows) < scores[:, 0]).astype(int)
    return labels, (scores[:, 0] > 0.5).astype(int), scores


def number_set(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 26, rows) / 5
    predictions = labels + generator.normal(size=rows)
    return labels, predictions, predictions[:, None]


def class_set(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.dirichlet(np.ones(5), rows)
    predictions = scores.argmax(1)
    labels = np.where(generator.random(rows) < 0.5, predictions, generator.integers(0, 5, rows))
    return labels, predictions, scores


def tokens_set(rows=200, seed=0):
    generator = np.random.default_rng(seed)
    masked = generator.integers(0, 5, rows)
    right = generator.binomial(masked, 0.4)
    return masked, right, (masked * generator.uniform(0.5, 3, rows))[:, None]


def views_set(rows=200, seed=0):
    generator = np.random.default_rng(seed)
    chance = generator.random((rows, 1))
    return np.arange(2 * rows).reshape(rows, 2), (chance[:, 0] > 0.5).astype(int), chance


def labels_set(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    chances = generator.random((rows, 4)) * [0.9, 0.8, 1.0, 0.6]
    return (generator.random((rows, 4)) < chances).astype(float), (chances > 0.5) * 1, chances


SETS = {
    "labels": labels_set,
    "class": class_set,
    "binary": binary_set,
    "number": number_set,
    "tokens": tokens_set,
    "views": views_set,
}
