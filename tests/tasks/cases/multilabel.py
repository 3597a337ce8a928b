"""Several classes per row."""

import numpy as np
import torch
from sklearn.metrics import accuracy_score, matthews_corrcoef

from tests.support.formulas import cross_entropy
from tests.support.single_heads import COUNTS
from tests.support.tallies import naive_f1

DATA = {"label": "classes"}
VALUES = ["q"]
SELECTS = ("f1", "macro_f1", "exact_match", "label_accuracy", "mcc")
LABELS = torch.tensor([[0, 1, 1], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1]]).float()


def cell(number, words):
    return [name for place, name in enumerate("abc") if (number % 7 + 1) >> place & 1]


def columns(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    chances = generator.random((rows, 4)) * [0.9, 0.8, 1.0, 0.6]
    return (generator.random((rows, 4)) < chances).astype(float), (chances > 0.5) * 1, chances


def naive(labels, predictions, scores):
    by_class = [naive_f1(*pair, 1) for pair in zip(labels.T, predictions.T, strict=True)]
    by_column = list(zip(labels.T, predictions.T, strict=True))
    occurs = (labels + predictions).any(axis=0)
    macro = [f1 for f1, occurring in zip(by_class, occurs, strict=True) if occurring]
    pairs = zip(labels.tolist(), predictions.tolist(), strict=True)
    return {
        "f1": naive_f1(labels.ravel(), predictions.ravel(), 1),
        "macro_f1": sum(macro) / len(macro),
        "exact_match": sum(gold == predicted for gold, predicted in pairs) / len(labels),
        "label_accuracy": accuracy_score(labels.ravel(), predictions.ravel()),
        "mcc": np.mean([matthews_corrcoef(*pair) for pair in by_column]),
    }


def naive_loss(scores, gold, positive_weights=None):
    counts = np.array(COUNTS)
    weights = {
        None: np.ones(len(COUNTS)),
        "balanced": (13 - counts) / counts,
        "sqrt": np.sqrt((13 - counts) / counts),
    }.get(str(positive_weights) if positive_weights else None, positive_weights)
    total = 0.0
    for row, cells in zip(scores, gold, strict=True):
        for score, has, weight in zip(row, cells, weights, strict=True):
            total += (weight if has else 1) * cross_entropy([score], [has])
    return total / np.size(scores)


def check_predictions(head, scores, predictions, shown):
    assert predictions.dtype == torch.int64 and shown.shape == scores.shape
    assert torch.equal(predictions, (shown > 0.5).long())
    assert 0 < predictions.sum() < predictions.numel()
