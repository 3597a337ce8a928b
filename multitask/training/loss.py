"""The objective of a step: the tasks' losses, their weights, and the SMART terms of some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.amp import GradScaler

from multitask.config import Config, SmartConfig
from multitask.data.by_type import reading_of
from multitask.data.collate import SharedBatch, by_task, label_tensor
from multitask.data.splits import Data
from multitask.models.multitask_model import MultiTaskModel
from multitask.training.smart_penalty import loss_and_terms


class Outcome(NamedTuple):
    """A task's losses on a batch.

    Attributes:
        loss: the mean loss over the rows with a label, a scalar in fp32.
        scores: the head's scores for these rows.
        terms: the weighted SMART terms by name, scalars; None if this step has none.
    """

    loss: Tensor
    scores: Tensor
    terms: dict[str, Tensor] | None = None

    @property
    def penalty(self) -> Tensor | None:
        """The sum of the SMART terms, a scalar; None if this step has none."""
        return None if self.terms is None else sum(self.terms.values(), self.loss.new_zeros(()))


@dataclass(frozen=True)
class Objective:
    """The weighted sum that a step minimises: task losses and SMART terms.

    Attributes:
        weights: the factor on each task's loss and SMART terms.
        smart: the settings of SMART, by task; tasks without SMART are left out.
        teacher: the momentum teacher of the Bregman terms; None if no task has such a term.
        scaler: the scale of the sum in fp16; None in other precisions.
    """

    weights: Mapping[str, float]
    smart: Mapping[str, SmartConfig] = field(default_factory=dict)
    teacher: MultiTaskModel | None = None
    scaler: GradScaler | None = None

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss to differentiate: times the scale in fp16."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def due(self, trained: Mapping[str, int]) -> "Objective":
        """Return the objective of the next step: only with the SMART terms that are due then.

        ``trained`` has the number of steps that have trained each task.
        """
        due = {
            task: settings
            for task, settings in self.smart.items()
            if (trained.get(task, 0) + 1) % settings.every == 0
            and (settings.weight > 0 or settings.bregman > 0)
        }
        return replace(self, smart=due)

    def losses(
        self, model: MultiTaskModel, batches: Sequence[SharedBatch], *, apart: bool = False
    ) -> dict[str, Outcome]:
        """Return each task's outcome; see ``task_losses``."""
        return task_losses(model, batches, self.smart, self.teacher, apart=apart)


def task_losses(
    model: MultiTaskModel,
    batches: Sequence[SharedBatch],
    smart: Mapping[str, SmartConfig] | None = None,
    teacher: MultiTaskModel | None = None,
    apart: bool = False,
) -> dict[str, Outcome]:
    """Compute each task's outcome on its batch; the loss is 0 if no row has a label.

    Tasks share a forward pass of the encoder where possible (``MultiTaskModel.passes``). A task in
    ``smart`` gets a separate pass, and a penalty. With ``apart`` every task gets a separate
    pass. ``teacher`` is the momentum teacher of the Bregman terms.
    """
    smart = smart or {}
    outcomes: dict[str, Outcome] = {}
    tasks = by_task(batches)
    for encoded in model.passes(batches, apart=tasks if apart else smart):
        first, batch = next(iter(by_task(encoded).items()))
        if first in smart:
            outcome = loss_and_terms(model, first, batch, smart[first], teacher=teacher)
            outcomes[first] = Outcome(*outcome)
            continue
        for task, vectors in model.encode(encoded).items():
            outcomes[task] = Outcome(*model.loss(task, tasks[task], vectors))
    return {task: outcomes[task] for task in tasks}


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
