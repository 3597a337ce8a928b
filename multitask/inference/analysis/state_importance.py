# Tested by tests/commands/test_importance.py
"""Measure how much each hidden state counts: over a split, by length of text and per example."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from multitask.data.collate import Batch, separate
from multitask.data.tokenize import Tokens
from multitask.inference.analysis.layer_weights import summary, watched_weights
from multitask.inference.scoring import Scorer
from multitask.reporting.figures.importance_map import Importance, by_length


def importance(
    scorer: Scorer,
    task: str,
    tokens: Tokens,
    texts: Sequence[Sequence[str]],
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
        texts: their texts, one to three a row.
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
    sentences = [
        text
        for row in texts[:examples]
        for text in (row if tokens.sides > 1 else [" / ".join(row)])
    ]
    return Importance(
        task=task,
        split=split,
        layers=model.encoder.num_layers,
        **summary(pooler, seen, scorer.device),
        **by_length(weights, np.diff(inputs.offsets)),
        texts=sentences,
        weights=weights[which[:examples].ravel()].tolist(),
    )
