"""What a pooler's scores of hidden states are while a model is evaluated: `hire` has such scores.

A pooler with scores has a module ``scorer`` that gives them, alpha [B, n], for the hidden states
of its ``scored``; their softmax weighs the states.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from multitask import distributed


def scores_states(pooler: Any) -> bool:
    """Whether a pooler weighs hidden states by scores."""
    return getattr(pooler, "scorer", None) is not None


@contextmanager
def watched_scores(pooler: Any) -> Iterator[list[Tensor]]:
    """Collect alpha [B, n] of every batch that the pooler sees; nothing for one without scores."""
    seen: list[Tensor] = []
    if not scores_states(pooler):
        yield seen
        return
    handle = pooler.scorer.register_forward_hook(
        lambda module, given, alpha: seen.append(alpha.detach())
    )
    try:
        yield seen
    finally:
        handle.remove()


def importance_of(alpha: Tensor) -> Tensor:
    """Scores [B, n] -> the weights of the states, float32 [B, n]; each row sums to 1."""
    return alpha.float().softmax(-1)


def summary(pooler: Any, seen: Sequence[Tensor], device: torch.device) -> dict[str, Any] | None:
    """What ``watched_scores`` saw on all ranks, in few numbers; None without learned scores.

    Returns:
        ``states``, numbers of the hidden states; ``rows``, how many inputs it saw; ``mean``, the
        states' mean importance scores;
        ``above_0``, the share of alpha that the ReLU lets through: at 0 nothing is learned.
    """
    if not scores_states(pooler) or not any(True for _ in pooler.scorer.parameters()):
        return None
    sums = [0.0] * len(pooler.scored)
    rows = above = 0.0
    for alpha in seen:
        found = importance_of(alpha).double().sum(0).tolist()
        sums = [one + other for one, other in zip(sums, found, strict=True)]
        rows += len(alpha)
        above += float((alpha > 0).sum())
    *sums, rows, above = distributed.total([*sums, rows, above], device)
    return {
        "states": list(pooler.scored),
        "rows": round(rows),
        "mean": [one / rows for one in sums],
        "above_0": above / (rows * len(sums)),
    }
