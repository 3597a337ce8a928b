"""How much each hidden state counts while a model is evaluated: the weights of `hire` and such.

What a pooler that weighs hidden states declares: ``multitask.models.poolers``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from multitask.utils import distributed


@dataclass
class Watched:
    """The weights [B, n] of each batch; where a ReLU made the scores, how many were above 0."""

    weights: list[Tensor] = field(default_factory=list)
    above_0: list[Tensor] = field(default_factory=list)


def weighs_states(pooler: Any) -> bool:
    """Whether a pooler weighs hidden states."""
    return getattr(pooler, "weigher", None) is not None


@contextmanager
def watched_weights(pooler: Any) -> Iterator[Watched]:
    """Collect the weights of every batch that the pooler sees; nothing of one without."""
    seen = Watched()
    if not weighs_states(pooler):
        yield seen
        return

    def note(module: Any, given: tuple[Tensor], weights: Tensor) -> None:
        seen.weights.append(weights.detach())
        if pooler.rectified:
            seen.above_0.append((given[0] > 0).sum())

    handle = pooler.weigher.register_forward_hook(note)
    try:
        yield seen
    finally:
        handle.remove()


def summary(pooler: Any, seen: Watched, device: torch.device) -> dict[str, Any]:
    """What ``watched_weights`` saw of a pooler that weighs states, on all ranks, in few numbers.

    Returns:
        ``states``, numbers of the hidden states; ``rows``, how many inputs it saw; ``mean``, the
        states' mean weights; ``above_0``, the share of scores that the ReLU lets through (at 0
        nothing is learned), None where there is no ReLU.
    """
    sums = torch.zeros(len(pooler.scored), dtype=torch.float64)
    for weights in seen.weights:
        sums += weights.cpu().double().sum(0)
    here = sum(len(weights) for weights in seen.weights)
    above = sum(count.item() for count in seen.above_0)
    *totals, rows, above = distributed.total([*sums.tolist(), here, above], device)
    return {
        "states": list(pooler.scored),
        "rows": round(rows),
        "mean": [one / rows for one in totals],
        "above_0": above / (rows * len(totals)) if pooler.rectified else None,
    }
