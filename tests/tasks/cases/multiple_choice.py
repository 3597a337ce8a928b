"""One of several endings."""

import numpy as np

DATA = {"label": "place"}
SELECTS = ("accuracy",)


def cell(number, words):
    return number % 2


def columns(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.dirichlet(np.ones(4), rows)
    predictions = scores.argmax(1)
    labels = np.where(generator.random(rows) < 0.4, predictions, generator.integers(0, 4, rows))
    return labels, predictions, scores


def naive(labels, predictions, scores):
    pairs = list(zip(labels.tolist(), predictions.tolist(), strict=True))
    return {"accuracy": sum(gold == predicted for gold, predicted in pairs) / len(pairs)}
