"""How much each hidden state counts, over a split, by length of text and example by example."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from multitask.data.collate import Batch, separate
from multitask.data.tokenize import Tokens
from multitask.inference.analysis.layer_weights import summary, watched_weights
from multitask.inference.scoring import over_rows
from multitask.models.multitask_model import MultiTaskModel
from multitask.reporting.figures.importance_map import Importance, by_length


def importance(
    model: MultiTaskModel,
    task: str,
    tokens: Tokens,
    texts: Sequence[Sequence[str]],
    *,
    split: str,
    examples: int,
    batch_size: int,
    pad_id: int,
    device: torch.device,
) -> Importance:
    """The weights of a task's pooler, which weighs hidden states, by the model's own forward pass.

    The sentences of siamese pairs or triplets count one by one, a repeated one once; among the
    examples the first of a row stands first.

    Args:
        model: with the weights that serve the task.
        task: its name.
        tokens: N rows.
        texts: their texts, one to three a row.
        split: what the rows are, for the picture.
        examples: of how many rows the weights are kept one by one, from the first on.
        batch_size: rows in one batch.
        pad_id: id of the pad token.
        device: the model's.
    """
    pooler = model.module(task).scoring_pooler
    inputs, which = tokens.inputs
    with watched_weights(pooler) as seen:

        def weights_of(batch: Batch) -> Tensor:
            model.pooled(separate({task: batch}))
            return seen.weights[-1]

        found = over_rows(
            model,
            inputs,
            weights_of,
            batch_size=batch_size,
            pad_id=pad_id,
            device=device,
            title=f"scoring the layers of {task}",
        )
    weights = found.cpu().numpy()
    kept = which[:examples].ravel()
    sentences = [
        text
        for row in texts[:examples]
        for text in (row if tokens.sides > 1 else [" / ".join(row)])
    ]
    return Importance(
        task=task,
        split=split,
        layers=model.encoder.num_layers,
        **summary(pooler, seen, device),
        **by_length(weights, np.diff(inputs.offsets)),
        texts=sentences,
        weights=weights[kept].tolist(),
    )
