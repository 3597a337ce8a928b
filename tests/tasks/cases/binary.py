"""One of two classes per row."""

import math

import numpy as np
import torch

from tests.support.formulas import cross_entropy
from tests.support.tallies import naive_f1, naive_mcc

DATA = {"label": "same"}
VALUES = ["q"]
SELECTS = ("accuracy", "f1", "average_precision", "mcc")
LABELS = torch.tensor([0, 1, 1, 0, 1])


def cell(number, words):
    return number % 2


def columns(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.random((rows, 1)).round(2)
    labels = (generator.random(rows) < scores[:, 0]).astype(int)
    return labels, (scores[:, 0] > 0.5).astype(int), scores


def naive_average_precision(labels, scores):
    if not any(labels):
        return math.nan
    total, recall_before = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        retrieved = [label for label, s in zip(labels, scores, strict=True) if s >= threshold]
        recall = sum(retrieved) / sum(labels)
        total += (recall - recall_before) * sum(retrieved) / len(retrieved)
        recall_before = recall
    return total


def naive(labels, predictions, scores):
    return {
        "accuracy": np.mean(labels == predictions),
        "f1": naive_f1(labels, predictions, 1),
        "average_precision": naive_average_precision(labels.tolist(), scores[:, 0].tolist()),
        "mcc": naive_mcc(labels, predictions),
    }


def naive_loss(scores, gold, **_):
    return cross_entropy(scores, gold)


def check_predictions(head, scores, predictions, shown):
    assert predictions.dtype == torch.int64 and shown.shape == (len(scores), 1)
    assert shown.min() >= 0 and shown.max() <= 1
    assert torch.equal(predictions, (shown[:, 0] > 0.5).long())
