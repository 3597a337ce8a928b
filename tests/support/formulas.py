"""Formulas of vectors and of labels as plain loops in float64."""

import math
from typing import Any

from tests.support.single_heads import HIGH, LOW


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def norm(a: list[float]) -> float:
    return math.sqrt(dot(a, a))


def distance(u: list[float], v: list[float]) -> float:
    return norm([a - b for a, b in zip(u, v, strict=True)])


def affine(layer: Any, x: list[float]) -> list[float]:
    """W x + b of one vector."""
    rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [dot(row, x) + bias for row, bias in rows]


def scaled(x: float) -> float:
    """From 0 to 1 -> from LOW to HIGH."""
    return LOW + (HIGH - LOW) * x


def cross_entropy(scores: list[float], targets: list[float]) -> float:
    """Mean binary cross-entropy of logits with targets from 0 to 1."""
    total = 0.0
    for x, y in zip(scores, targets, strict=True):
        p = 1 / (1 + math.exp(-x))
        total -= y * math.log(p) + (1 - y) * math.log(1 - p)
    return total / len(targets)
