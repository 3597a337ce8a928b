"""R-Drop: two dropout masks should give the same output (Liang et al. 2021)."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from multitask.config import RDropConfig
from multitask.data.collate import Batch, separate
from multitask.models.multitask_model import MultiTaskModel
from smart.divergence import DIVERGENCES

CONSISTENCY = "consistency"  # as the log names it


def loss_and_consistency(
    model: MultiTaskModel, task: str, batch: Batch, settings: RDropConfig
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Compute a task's loss, its scores of the first pass, and its weighted consistency term.

    The rows go twice through one pass of the encoder, with two dropout masks. The loss is the mean
    of both passes' losses. The term is weight (KL(P|Q) + KL(Q|P)) / 2, a mean over the rows: half
    of equation 4, whose alpha is 2 weight. Numbers have their squared difference in place of the
    symmetric divergence.
    """
    both = twice(batch)
    vectors = model.encode(separate({task: both}))[task]
    loss, scores = model.loss(task, both, vectors)
    if not len(scores):
        return loss, scores, {CONSISTENCY: scores.sum()}
    first, second = scores.chunk(2)
    divergence = DIVERGENCES[model.head(task).divergence](first, second)
    return loss, first, {CONSISTENCY: settings.weight / 2 * divergence.mean()}


def twice(batch: Batch) -> Batch:
    """Return B rows and then the same rows: 2B rows, whose sides are one after another again."""
    sides, length = batch.sides, batch.input_ids.shape[1]

    def rows(values: Tensor | None) -> Tensor | None:
        if values is None:
            return None
        return torch.cat([part for side in values.chunk(sides) for part in (side, side)])

    def again(values: Tensor | None, step: int) -> Tensor | None:
        return None if values is None else torch.cat([values, values + step])

    lengths = batch.lengths
    if lengths is not None:
        lengths = np.concatenate([np.tile(side, 2) for side in np.split(lengths, sides)])
    ids, mask, types = rows(batch.input_ids), rows(batch.attention_mask), rows(batch.token_type_ids)
    assert ids is not None and mask is not None and types is not None
    return replace(
        batch,
        input_ids=ids,
        attention_mask=mask,
        token_type_ids=types,
        labels=None if batch.labels is None else torch.cat([batch.labels, batch.labels]),
        labelled=again(batch.labelled, batch.rows),
        places=again(batch.places, batch.rows * length),
        masked_ids=rows(batch.masked_ids),
        context=rows(batch.context),
        lengths=lengths,
        teacher=None if batch.teacher is None else torch.cat([batch.teacher, batch.teacher]),
    )
