"""log P(y = k), as differences of cumulative probabilities."""

import math
from itertools import pairwise

from tests.support.formulas import dot


def naive_scores(head, x):
    gaps = [math.exp(raw) for raw in head.log_gaps.tolist()]
    lowest = head.middle.item() - math.fsum(gaps) / 2
    thresholds = [lowest + math.fsum(gaps[:k]) for k in range(len(gaps) + 1)]
    direction = dot(head.linear.weight[0].tolist(), x)
    cumulative = [0.0, *(1 / (1 + math.exp(direction - t)) for t in thresholds), 1.0]
    return [math.log(high - low) for low, high in pairwise(cumulative)]
