"""What one step minimises: the task's own loss."""

from torch import Tensor

from multitask.data.collate import Batch
from multitask.model import MultiTaskModel


def task_loss(model: MultiTaskModel, task: str, batch: Batch) -> Tensor:
    """Mean loss of a labelled batch, a scalar in fp32."""
    return model.head(task).loss(model(task, batch), batch.labels)
