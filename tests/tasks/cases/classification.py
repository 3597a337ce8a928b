"""One class per row."""

import math

import numpy as np
import torch

from tests.support.single_heads import COUNTS, C
from tests.support.tallies import naive_f1, naive_mcc

MOODS = ["bad", "dull", "good"]
DATA = {"label": "mood", "labels": {mood: mood for mood in MOODS}}
VALUES = ["q"]
SELECTS = ("accuracy", "macro_f1", "mcc")
LABELS = torch.tensor([0, 2, 1, 2, 0])


def cell(number, words):
    return MOODS[min(number % 4, 2)]  # more rows of the last class


def columns(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.dirichlet(np.ones(5), rows)
    predictions = scores.argmax(1)
    labels = np.where(generator.random(rows) < 0.5, predictions, generator.integers(0, 5, rows))
    return labels, predictions, scores


def naive(labels, predictions, scores):
    pairs = list(zip(labels.tolist(), predictions.tolist(), strict=True))
    macro = [naive_f1(labels, predictions, c) for c in {value for pair in pairs for value in pair}]
    return {
        "accuracy": sum(g == p for g, p in pairs) / len(pairs),
        "macro_f1": sum(macro) / len(macro),
        "mcc": naive_mcc(labels, predictions),
        "mae": sum(abs(g - p) for g, p in pairs) / len(pairs),
    }


def naive_loss(scores, gold, class_weights=None, label_smoothing=0.0):
    if class_weights == "balanced":
        class_weights = [sum(COUNTS) / (C * count) for count in COUNTS]
    total = 0.0
    for row, y in zip(scores, gold, strict=True):
        partition = math.fsum(math.exp(x) for x in row)
        for c in range(C):
            target = (1 - label_smoothing) * (c == y) + label_smoothing / C
            weight = class_weights[c] if class_weights else 1.0
            total -= weight * target * math.log(math.exp(row[c]) / partition)
    return total / len(gold)


def check_predictions(head, scores, predictions, shown):
    assert predictions.dtype == torch.int64 and shown.shape == (len(scores), C)
    assert shown.min() >= 0 and shown.max() <= 1
    assert torch.allclose(shown.sum(1), torch.ones(len(scores), dtype=torch.float64))
    assert torch.equal(predictions, shown.argmax(1))
