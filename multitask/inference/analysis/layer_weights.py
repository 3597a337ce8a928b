"""Record the weights that poolers such as `hire` give to hidden states during evaluation.

``multitask.models.poolers`` describes what such a pooler declares.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from multitask.data.collate import Batch, separate
from multitask.data.tokenize import Tokens
from multitask.inference.scoring import Scorer
from multitask.reporting.figures.maps import Importance, by_length
from multitask.utils import distributed


@dataclass
class Watched:
    """The layer weights that a run used, batch by batch."""

    # the weights [B, n] of each batch
    weights: list[Tensor] = field(default_factory=list)
    # under a ReLU, the number of scores above 0 in each batch
    above_0: list[Tensor] = field(default_factory=list)


def weighs_states(pooler: Any) -> bool:
    """Return True if a pooler gives weights to hidden states."""
    return getattr(pooler, "weigher", None) is not None


@contextmanager
def watched_weights(pooler: Any) -> Iterator[Watched]:
    """Record the weights of every batch; nothing for a pooler without weights."""
    seen = Watched()
    if not weighs_states(pooler):
        yield seen
        return

    def note(module: Any, inputs: tuple[Tensor], weights: Tensor) -> None:
        seen.weights.append(weights.detach())
        if pooler.rectified:
            seen.above_0.append((inputs[0] > 0).sum())

    handle = pooler.weigher.register_forward_hook(note)
    try:
        yield seen
    finally:
        handle.remove()


class WeightSummary(TypedDict):
    """The mean weights of hidden states.

    Attributes:
        states: the numbers of the hidden states.
        rows: the number of inputs.
        mean: the mean weights.
        above_0: the share of scores above 0 under a ReLU (nothing is learned at 0), or None without
            a ReLU.
    """

    states: list[int]
    rows: int
    mean: list[float]
    above_0: float | None


def summary(pooler: Any, seen: Watched, device: torch.device) -> WeightSummary:
    """Summarise what ``watched_weights`` recorded, over all ranks."""
    sums = torch.zeros(len(pooler.scored), dtype=torch.float64)
    for weights in seen.weights:
        sums += weights.cpu().double().sum(0)
    count = sum(len(weights) for weights in seen.weights)
    above = sum(positive.item() for positive in seen.above_0)
    *totals, rows, above = distributed.total([*sums.tolist(), count, above], device)
    return {
        "states": list(pooler.scored),
        "rows": round(rows),
        "mean": [total / rows for total in totals],
        "above_0": above / (rows * len(totals)) if pooler.rectified else None,
    }


def importance(
    scorer: Scorer,
    task: str,
    tokens: Tokens,
    sequences: Sequence[Sequence[Sequence[str]]],
    *,
    split: str,
    examples: int,
    predicted: Sequence[str] = (),
) -> Importance:
    """Record the weights that a task's pooler gives to hidden states in forward passes.

    The sentences of siamese pairs or triplets count one by one, a repeated one once. Examples are
    in file order, the first sentence of a row first.

    Args:
        scorer: of a model with the weights that serve the task.
        task: its name.
        tokens: N rows.
        sequences: the texts of each sequence of each row.
        split: the name of the rows, for the figure.
        examples: the number of rows whose weights are returned one by one.
        predicted: the class that the task predicts for each of these rows, if it predicts classes.
    """
    model = scorer.model
    pooler = model.module(task).scoring_pooler
    inputs, which = tokens.inputs
    with watched_weights(pooler) as seen:

        def weights_of(batch: Batch) -> Tensor:
            model.pooled(separate({task: batch}))
            return seen.weights[-1]

        weighed = scorer.over_rows(inputs, weights_of, title=f"scoring the layers of {task}")
    weights = weighed.cpu().numpy()
    shown = sequences[:examples]
    sentences = [" / ".join(texts) for row in shown for texts in row]
    answers = [answer for row, answer in zip(shown, predicted, strict=False) for _ in row]
    return Importance(
        task=task,
        split=split,
        layers=model.encoder.num_layers,
        **summary(pooler, seen, scorer.device),
        **by_length(weights, np.diff(inputs.offsets)),
        texts=sentences,
        weights=weights[which[:examples].ravel()].tolist(),
        predicted=answers,
    )
