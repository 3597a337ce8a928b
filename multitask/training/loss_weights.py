"""The weights of the tasks' losses: those of the config, normalised, and those that are learned."""

import torch
from torch import Tensor

from multitask.config import Config
from multitask.data.by_type import reading_of
from multitask.data.collate import label_tensor
from multitask.data.splits import Data
from multitask.models.multitask_model import MultiTaskModel


def loss_weights(
    config: Config, model: MultiTaskModel, data: Data, device: torch.device
) -> dict[str, float]:
    """Compute the factor on each task's loss from `loss_weight` and `loss_normalization`."""
    splits, readers, maskings = data.splits, data.readers, data.maskings
    weights = {name: task.loss_weight for name, task in config.tasks.items()}
    if config.training.loss_normalization == "none":
        return weights
    for name, reader in readers.items():
        if "train" not in splits[name]:
            continue
        train, kind = splits[name]["train"], reader.task_type
        if guess_loss := reading_of(kind).guess_loss:
            weights[name] /= guess_loss(train.tokens, maskings.get(name))
            continue
        labels, size = label_tensor(train.rows.gold).to(device), config.tasks[name].batch_size
        try:
            weights[name] /= model.head(name).trivial_loss(labels, len(reader.names), size)
        except ValueError as error:
            path = ("training", "loss_normalization")
            raise config.error(path, f"task {name}: {error}: use none") from error
    return weights


def weighted(model: MultiTaskModel, task: str, value: Tensor, share: float) -> Tensor:
    """Apply a task's learned loss weight to its part of the objective, if it has one.

    Returns value / (2 exp(s)) + share * s / 2, where s is the learned log variance (Kendall et al.
    2018).
    """
    if task not in model.log_variances:
        return value
    s = model.log_variances[task]
    return value / (2 * s.exp()) + share * s / 2


def learned_weights(model: MultiTaskModel) -> dict[str, float]:
    """Return the factor that ``weighted`` applies to each task; empty if no weight is learned."""
    return {task: 1 / (2 * s.exp().item()) for task, s in model.log_variances.items()}
