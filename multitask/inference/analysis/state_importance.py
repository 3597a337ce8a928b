# Tested by tests/commands/test_importance.py
"""Measure how much each hidden state counts: over a split, by length of text and per example."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from multitask.data.collate import Batch, separate
from multitask.data.tokenize import Tokens
from multitask.inference.analysis.layer_weights import summary, watched_weights
from multitask.inference.scoring import Scorer
from multitask.reporting.figures.maps import Importance, by_length


def importance(
    scorer: Scorer,
    task: str,
    tokens: Tokens,
    sequences: Sequence[Sequence[Sequence[str]]],
    *,
    split: str,
    examples: int,
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
    sentences = [" / ".join(texts) for row in sequences[:examples] for texts in row]
    return Importance(
        task=task,
        split=split,
        layers=model.encoder.num_layers,
        **summary(pooler, seen, scorer.device),
        **by_length(weights, np.diff(inputs.offsets)),
        texts=sentences,
        weights=weights[which[:examples].ravel()].tolist(),
    )
