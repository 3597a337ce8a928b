"""An answer in a text."""

import numpy as np

DATA = {"label": "answers", "text2": "text"}
SELECTS = ("f1", "exact_match")


def cell(number, words):
    return {"text": ["cat"], "answer_start": [0]}


def columns(rows=300, seed=0):
    """Measure a row: its F1, and 1 for the exact answer."""
    generator = np.random.default_rng(seed)
    exact = generator.random(rows) < 0.4
    measured = np.column_stack([np.where(exact, 1, generator.random(rows)), exact])
    return exact, exact, measured


def naive(labels, predictions, scores):
    f1, exact = (sum(column) / len(column) for column in scores.T.tolist())
    return {"f1": f1, "exact_match": exact}
