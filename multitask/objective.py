"""What one step minimises: the tasks' own losses."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from multitask.data.collate import Batch
from multitask.model import MultiTaskModel


class Outcome(NamedTuple):
    """A task's mean loss over the labelled rows of a batch (a scalar in fp32), and their scores."""

    loss: Tensor
    scores: Tensor


def task_losses(model: MultiTaskModel, batches: Mapping[str, Batch]) -> dict[str, Outcome]:
    """Each task's outcome on its batch, from one encoder pass; 0 where no row has a label."""
    found = {}
    for task, scores in model(batches).items():
        batch = batches[task]
        if batch.labelled is not None:
            scores = scores[batch.labelled]
        loss = model.head(task).loss(scores, batch.labels) if len(scores) else scores.sum()
        if batch.masked_ids is not None:
            loss = loss + model.detection_loss(task, scores, batch)
        found[task] = Outcome(loss, scores)
    return found
