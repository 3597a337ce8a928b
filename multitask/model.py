"""The multi-task model: one shared encoder; a pooler, a projection and a head per task."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from multitask.config import Config
from multitask.data.collate import Batch
from multitask.encoders.hf import HFEncoder
from multitask.errors import UserError
from multitask.registry import build, resolve


class TaskModule(nn.Module):
    """What one task owns: pooler -> projection -> dropout -> head.

    ``sides`` is 2 where the head compares the vectors of two sentences, else 1.
    """

    def __init__(
        self, pooler: nn.Module, projection: nn.Module, head: nn.Module, dropout: float, sides: int
    ) -> None:
        super().__init__()
        self.pooler = pooler
        self.projection = projection
        self.dropout = nn.Dropout(dropout)
        self.head = head
        self.sides = sides

    def forward(self, pooled: Tensor) -> Tensor:
        """Pooled vectors [sides * B, d] -> the head's scores."""
        return self.head(*self.dropout(self.projection(pooled)).chunk(self.sides))


class MultiTaskModel(nn.Module):
    """One encoder shared by all tasks.

    Args:
        encoder: two-stage encoder.
        tasks: each task's own modules.
        freeze_encoder: the encoder gets no gradient and runs without dropout.
        autocast: run encoder and pooler under bf16 autocast; heads and losses stay in fp32.
    """

    def __init__(
        self,
        encoder: HFEncoder,
        tasks: Mapping[str, TaskModule],
        *,
        freeze_encoder: bool = False,
        autocast: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(not freeze_encoder)
        self.tasks: Any = nn.ModuleDict(tasks)
        self.freeze_encoder = freeze_encoder
        self.autocast = autocast

    def train(self, mode: bool = True) -> "MultiTaskModel":
        super().train(mode)
        if self.freeze_encoder:
            self.encoder.eval()
        return self

    def pooled(self, task: str, batch: Batch) -> Tensor:
        """The task's pooled vectors of a batch [S, d], in fp32 under autocast too."""
        pooler = self.tasks[task].pooler
        mask = batch.attention_mask
        with torch.autocast(mask.device.type, torch.bfloat16, enabled=self.autocast):
            embeddings = self.encoder.embed(batch.input_ids, batch.token_type_ids, mask)
            hidden = self.encoder.encode(embeddings, mask, pooler.layers, pooler.tokens)
            pooled = pooler(hidden, mask)
        return pooled.float() if self.autocast else pooled

    def forward(self, task: str, batch: Batch) -> Tensor:
        """The head's scores: logits [B, C], logits [B] or numbers [B]."""
        return self.tasks[task](self.pooled(task, batch))

    def head(self, task: str) -> Any:
        """The task's head: its loss, its predictions and its label type."""
        return self.tasks[task].head


def head_class(config: Config, task: str) -> Any:
    """The class of a task's head, checked against the task's input and metric.

    Raises UserError where the head cannot take the input, or does not have the metric.
    """
    from multitask.metrics import SELECTABLE

    entry = config.tasks[task]
    head = resolve("head", entry.head.name)
    path = ("tasks", task)
    gives = "pair" if entry.input == "siamese" else "vector"
    if head.takes != gives:
        needs = "`input: siamese`" if head.takes == "pair" else "`input: single` or `input: cross`"
        message = f"takes a {head.takes}: it needs {needs}, not {entry.input!r}"
        raise config.error((*path, "head"), f"head {entry.head.name!r} {message}")
    known = SELECTABLE[head.label_type]
    if entry.metric is not None and entry.metric not in known:
        message = f"has the metrics {', '.join(known)}, not {entry.metric!r}"
        raise config.error((*path, "metric"), f"head {entry.head.name!r} {message}")
    return head


def build_model(
    config: Config,
    encoder: HFEncoder,
    label_context: Mapping[str, Mapping[str, Any]],
    *,
    autocast: bool = False,
) -> MultiTaskModel:
    """The model of a config round a loaded encoder.

    Args:
        config: the whole config.
        encoder: the shared encoder, loaded.
        label_context: what a head may ask for, by task: ``num_labels``, ``class_counts``, ``low``,
            ``high``.
        autocast: bf16 autocast.

    Raises:
        UserError: an option that a pooler, projection or head does not take, or a task's name
            that stands for something else.
    """
    tasks = {}
    for name, task in config.tasks.items():
        if name in ("encoder", "joint") or hasattr(nn.ModuleDict(), name):
            raise config.error(("tasks", name), "the name is taken: call the task something else")
        context: dict[str, Any] = {"dim": encoder.dim, "num_layers": encoder.num_layers}
        pooler = _build(config, name, "pooling", context)
        context = {"dim": pooler.output_dim, "pooler_weights": encoder.pooler_weights}
        projection: Any = nn.Identity()
        if task.projection is not None:
            projection = _build(config, name, "projection", context)
        dim = getattr(projection, "output_dim", pooler.output_dim)
        head = _build(config, name, "head", {"dim": dim, **label_context[name]})
        sides = 2 if task.input == "siamese" else 1
        tasks[name] = TaskModule(pooler, projection, head, task.dropout, sides)
    return MultiTaskModel(encoder, tasks, freeze_encoder=config.encoder.freeze, autocast=autocast)


def _build(config: Config, task: str, kind: str, context: Mapping[str, Any]) -> Any:
    choice = getattr(config.tasks[task], kind)
    try:
        return build(kind, choice.name, choice.options, context)
    except UserError as error:
        raise config.error(("tasks", task, kind), error) from error


def parameter_counts(model: MultiTaskModel) -> dict[str, int]:
    """Parameters by part: the encoder, and each task's own modules."""
    parts: dict[str, nn.Module] = {"encoder": model.encoder}
    parts |= {f"tasks.{name}": module for name, module in model.tasks.items()}
    return {
        name: sum(parameter.numel() for parameter in part.parameters())
        for name, part in parts.items()
    }
