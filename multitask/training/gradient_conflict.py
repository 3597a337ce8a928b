"""Do tasks pull the shared encoder in different directions? Cosines between their gradients."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

import torch

from multitask.data.collate import Batch, separate
from multitask.models.multitask_model import MultiTaskModel
from multitask.training.gradient_surgery import TaskGradients, cosines
from multitask.training.loss import task_losses, without_dropout


def gradient_cosines(
    model: MultiTaskModel, batches: Mapping[str, Batch]
) -> dict[str, dict[str, float]]:
    """cos(g_i, g_j) of each pair of tasks, in the whole encoder ("all") and in each part of it.

    Each task's own loss on its batch, without dropout; neither weights nor random states change.
    Parts without a gradient are left out.

    Returns:
        {part: {"one-other": cosine}}.
    """
    gradients = TaskGradients(model.shared())
    with without_dropout(model):
        for task, batch in batches.items():
            gradients.backward(task, task_losses(model, separate({task: batch}))[task].loss)
    model.zero_grad(set_to_none=True)
    parts = gradients.gramians()
    whole = {"all": torch.stack(list(parts.values())).sum(0), **parts} if parts else {}
    names = list(batches)
    return {
        part: {
            f"{names[i]}-{names[j]}": found[i, j].item()
            for i in range(len(names))
            for j in range(i + 1, len(names))
        }
        for part, found in ((part, cosines(gramian)) for part, gramian in whole.items())
    }


def conflict_summary(events: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]] | None:
    """What the ``conflict`` lines of metrics.jsonl say of the whole encoder, pair by pair.

    Returns:
        {"one-other": {"measured": times, "mean": cosine, "below_0": share of times}}; None where
        nothing was measured.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event["event"] == "conflict":
            for pair, cosine in event["cosines"].get("all", {}).items():
                if cosine is not None:  # a task had no gradient
                    found[pair].append(cosine)
    return {
        pair: {
            "measured": len(values),
            "mean": fmean(values),
            "below_0": fmean(value < 0 for value in values),
        }
        for pair, values in found.items()
    } or None
