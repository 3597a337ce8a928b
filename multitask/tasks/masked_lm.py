"""Masked language modelling (Devlin et al. 2019).

Labels are the number of masked tokens per text, predictions the number predicted correctly (both
int [N]), scores the summed negative log-likelihood [N, 1]. Metrics are over all masked tokens.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from multitask.tasks.base import Array, Columns, NoLabels, divide
from multitask.tasks.label_reader import LabelReader


class MaskedLM(NoLabels):
    """Predict masked tokens."""

    name = "tokens"
    predicts = "masked tokens"
    gives = "masked tokens"
    selects = ("accuracy",)
    metrics = (*selects, "perplexity")
    pipeline = "fill-mask"

    def values(self, columns: Columns, rows: Array, names: Sequence[str]) -> dict[str, Array]:
        sides = (columns[0], columns[1], columns[2][:, 0])
        masked, right, losses = (np.asarray(c, float)[rows].sum(axis=1) for c in sides)
        every = {"accuracy": divide(right, masked), "perplexity": np.exp(divide(losses, masked))}
        return {name: every[name] for name in names}

    def labels_in_words(self, counts: Mapping[str, int], reader: LabelReader, views: str) -> str:
        return "masked tokens, others in every pass"
