"""Cosines between the tasks' gradients: do tasks pull the encoder in different directions?"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from statistics import fmean
from typing import Any

import torch

from multitask.data.collate import Batch, separate
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.noise import without_dropout
from multitask.training.gradient_surgery import TaskGradients, cosines
from multitask.training.loss import Objective


def gradient_cosines(
    model: MultiTaskModel, batches: Mapping[str, Batch]
) -> dict[str, dict[str, float]]:
    """Compute cos(g_i, g_j) for each pair of tasks, over the encoder ("all") and over each part.

    g_i is the gradient of task i's loss on its batch, without dropout. Weights and random states do
    not change. Parts without a gradient are left out.

    Returns:
        {part: {"one-other": cosine}}.
    """
    gradients = TaskGradients(model.shared())
    with without_dropout(model):
        for task, batch in batches.items():
            outcome = Objective({}).losses(model, separate({task: batch}))[task]
            gradients.backward(task, outcome.loss)
    model.zero_grad(set_to_none=True)
    parts = gradients.gramians()
    if parts:
        parts = {"all": torch.stack(list(parts.values())).sum(0), **parts}
    pairs = list(combinations(enumerate(batches), 2))
    return {
        part: {f"{first}-{second}": matrix[i, j].item() for (i, first), (j, second) in pairs}
        for part, matrix in ((part, cosines(gramian)) for part, gramian in parts.items())
    }


def conflict_summary(events: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]] | None:
    """Summarise the ``conflict`` lines of metrics.jsonl over the encoder, pair by pair.

    Returns:
        {"one-other": {"measured": times, "mean": cosine, "below_0": share of times}}; None if
        nothing was measured.
    """
    cosines_of: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event["event"] == "conflict":
            for pair, cosine in event["cosines"].get("all", {}).items():
                if cosine is not None:  # a task had no gradient
                    cosines_of[pair].append(cosine)
    return {
        pair: {
            "measured": len(values),
            "mean": fmean(values),
            "below_0": fmean(value < 0 for value in values),
        }
        for pair, values in cosines_of.items()
    } or None
