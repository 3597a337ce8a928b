"""One number per row."""

import math

import numpy as np
import torch

DATA = {"label": "score", "label_range": [0, 5]}
VALUES = ["1"]
SELECTS = ("pearson", "spearman")
LABELS = torch.tensor([1.0, 4.8, 2.5, 3.0, 5.0])


def cell(number, words):
    return number % 6


def columns(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 26, rows) / 5
    predictions = labels + generator.normal(size=rows)
    return labels, predictions, predictions[:, None]


def naive_pearson(left, right):
    if len(set(left)) < 2 or len(set(right)) < 2:
        return math.nan
    left = [x - math.fsum(left) / len(left) for x in left]
    right = [y - math.fsum(right) / len(right) for y in right]
    covariance = math.fsum(x * y for x, y in zip(left, right, strict=True))
    return covariance / math.sqrt(math.fsum(x * x for x in left) * math.fsum(y * y for y in right))


def naive_ranks(values):
    """1 + how many are smaller + half of how many others are equal."""
    return [1 + sum(v < x for v in values) + (values.count(x) - 1) / 2 for x in values]


def naive(labels, predictions, scores):
    left, right = labels.tolist(), predictions.tolist()
    return {
        "pearson": naive_pearson(left, right),
        "spearman": naive_pearson(naive_ranks(left), naive_ranks(right)),
        "mse": naive_loss(left, right),
    }


def naive_loss(scores, gold, **_):
    return math.fsum((x - y) ** 2 for x, y in zip(scores, gold, strict=True)) / len(gold)


def check_predictions(head, scores, predictions, shown):
    assert predictions.min() >= head.low and predictions.max() <= head.high
    assert torch.equal(predictions, scores.clip(head.low, head.high))
    assert torch.equal(shown, predictions[:, None])
