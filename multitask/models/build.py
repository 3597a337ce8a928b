"""Build the multi-task model that a config describes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from multitask.config import TEXT_KEYS, Config
from multitask.config.registry import build
from multitask.data.splits import Data
from multitask.models.encoders import BertEncoder, Encoder
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.task_module import HeadOfItsOwn, TaskModule
from multitask.utils.device import use_autocast

# what `freeze:` and the log call other things
TAKEN = ("adapters", "encoder", "embeddings", "heads", "joint", "longest")


def initial_model(
    config: Config, encoder: Encoder, data: Data, device: torch.device
) -> MultiTaskModel:
    """Build the model as it is before any training: ``config.seed`` makes the heads."""
    torch.manual_seed(config.seed)
    train = {task: parts["train"] for task, parts in data.splits.items() if "train" in parts}
    context = {
        task: reader.head_context(train[task].rows.gold if task in train else None)
        for task, reader in data.readers.items()
    }
    autocast = use_autocast(config.training.precision, device)
    return assemble(config, encoder, context, autocast=autocast).to(device)


def assemble(
    config: Config,
    encoder: Encoder,
    label_context: Mapping[str, Mapping[str, Any]],
    *,
    autocast: bool = False,
) -> MultiTaskModel:
    """Assemble the model of a config around a loaded encoder.

    Args:
        config: the whole config.
        encoder: the shared encoder, loaded.
        label_context: what a head may ask for, by task: ``num_labels``, ``class_counts``, ``low``,
            ``high``.
        autocast: bf16 autocast.

    Raises:
        UserError: an option that an adapter, pooler, projection or head does not take, an adapter
            in an encoder of `transformers`, or a task's name that stands for something else.
    """
    tasks: dict[str, Any] = {}
    owners: dict[str, str] = {}
    pools = {name: t.share_pooling for name, t in config.tasks.items() if t.share_pooling}
    for name, task in config.tasks.items():
        if name in TAKEN or name.startswith("layer_") or hasattr(nn.ModuleDict(), name):
            raise config.error(("tasks", name), "the name is taken: call the task something else")
        if task.share_head is not None:
            owners[name] = task.share_head
            continue
        context: dict[str, Any] = {"dim": encoder.dim, "num_layers": encoder.num_layers}
        pooler = _build(config, name, "pooling", context)
        context = {
            "dim": pooler.output_dim,
            "encoder_dim": encoder.dim,
            "pooler_weights": encoder.pooler_weights,
        }
        projection: Any = nn.Identity()
        if task.projection is not None:
            projection = _build(config, name, "projection", context)
        dim = getattr(projection, "output_dim", pooler.output_dim)
        tied = {
            "word_embedding": encoder.word_embedding,
            "norm_eps": encoder.norm_eps,
            "mlm_weights": encoder.mlm_weights,
            "encoder": encoder,
        }
        head = _build(config, name, "head", {"dim": dim, **tied, **label_context[name]})
        sides = len(TEXT_KEYS[task.input]) if task.input in ("siamese", "triplet") else 1
        trained = max(2, sides) if head.takes == "views" else sides
        evaluates = _eval_pooler(config, name, encoder, head, dim)
        tasks[name] = TaskModule(
            pooler, projection, head, task.dropout, trained, evaluates, eval_sides=sides
        )
    for name, base in pools.items():
        own, dropout = tasks[name], config.tasks[name].dropout
        weights = any(True for _ in own.head.parameters())
        if weights and getattr(tasks[base].head, "mlp_only_train", False):
            message = f"{base!r} scores without its projection (`mlp_only_train`), with which this "
            message += "head would be trained: leave one of the two out"
            raise config.error(("tasks", name, "share_pooling"), message)
        tasks[name] = HeadOfItsOwn(tasks[base], own.head, dropout, own.sides, own.eval_sides)
    # after the heads, which so start alike with an adapter and without
    adapters = {
        name: _adapter(config, name, encoder)
        for name in tasks
        if config.tasks[name].adapter and name not in pools
    }
    training = [name for name, task in config.tasks.items() if not task.only_scored]
    uncertain = training if config.training.loss_weighting == "uncertainty" else ()
    return MultiTaskModel(
        encoder,
        tasks,
        adapters=adapters,
        owners=owners,
        pools=pools,
        uncertain=uncertain,
        autocast=autocast,
    )


def _eval_pooler(config: Config, task: str, encoder: Encoder, head: Any, dim: int) -> Any:
    """The pooler of ``eval_pooling``, which the head built for width ``dim`` can do with."""
    choice = config.tasks[task].eval_pooling
    if choice is None:
        return None
    context = {"dim": encoder.dim, "num_layers": encoder.num_layers}
    pooler = _build(config, task, "eval_pooling", context)
    path = ("tasks", task, "eval_pooling")
    if any(True for _ in pooler.parameters()):
        raise config.error(path, f"{choice.name!r} has parameters, which would never be trained")
    if pooler.output_dim != dim and any(True for _ in head.parameters()):
        message = f"{choice.name!r} gives {pooler.output_dim} numbers, the head was built for {dim}"
        raise config.error(path, message)
    return pooler


def _adapter(config: Config, task: str, encoder: Encoder) -> Any:
    if not isinstance(encoder, BertEncoder):
        message = (
            "adapters stand in the layers of our own encoder (`encoder.implementation: own`, BERT "
            "and RoBERTa architectures); this one runs in `transformers`"
        )
        raise config.error(("tasks", task, "adapter"), message)
    context = {"dim": encoder.dim, "num_layers": encoder.num_layers}
    return _build(config, task, "adapter", context)


def _build(config: Config, task: str, kind: str, context: Mapping[str, Any]) -> Any:
    choice = getattr(config.tasks[task], kind)
    registered = "pooling" if kind == "eval_pooling" else kind
    with config.errors_at(("tasks", task, kind)):
        return build(registered, choice.name, choice.options, context)
