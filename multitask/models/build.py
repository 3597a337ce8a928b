"""Build the multi-task model that a config describes."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from multitask.config import Config
from multitask.config.registry import build
from multitask.data.splits import Data
from multitask.models.encoders import BertEncoder, Encoder
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.pretrained import NO_HEAD_WEIGHTS, HeadWeights, load_head_weights
from multitask.models.task_module import HeadOnSharedPooling, TaskModule
from multitask.utils.device import autocast_dtype

# names that `freeze:` and the log use for other parts of the model
TAKEN = ("adapters", "encoder", "embeddings", "heads", "joint", "last", "longest")


def initial_model(
    config: Config,
    encoder: Encoder,
    data: Data,
    device: torch.device,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> MultiTaskModel:
    """Build the model as it is before any training: ``config.seed`` makes the heads.

    ``say`` is told of a part that the checkpoint lacks.
    """
    weights = load_head_weights(config, say)
    torch.manual_seed(config.seed)
    train = {task: parts["train"] for task, parts in data.splits.items() if "train" in parts}
    context = {
        task: reader.head_context(train[task].rows if task in train else None)
        for task, reader in data.readers.items()
    }
    autocast = autocast_dtype(config.training.precision, device)
    return assemble(config, encoder, context, weights=weights, autocast=autocast).to(device)


def assemble(
    config: Config,
    encoder: Encoder,
    label_context: Mapping[str, Mapping[str, Any]],
    *,
    weights: HeadWeights = NO_HEAD_WEIGHTS,
    autocast: torch.dtype | None = None,
) -> MultiTaskModel:
    """Assemble the model of a config around a loaded encoder.

    Args:
        config: the run's config.
        encoder: the shared encoder, loaded.
        label_context: per task the arguments that a head may take: ``num_labels``,
            ``class_counts``, ``low``, ``high``.
        weights: the checkpoint's weights above its encoder.
        autocast: the dtype of autocast, None for fp32.

    Raises:
        UserError: an option that an adapter, pooler, projection or head does not take, an adapter
            in an encoder of `transformers`, or a task's name that is taken.
    """
    modules: dict[str, TaskModule] = {}
    for name, task in config.tasks.items():
        if name in TAKEN or name.startswith("layer_") or hasattr(nn.ModuleDict(), name):
            raise config.error(("tasks", name), "the name is taken: call the task something else")
        if task.share_head is None:
            context = {**label_context[name], "autocast": autocast}
            modules[name] = _task_module(config, name, encoder, weights, context=context)
    pools = {name: t.share_pooling for name, t in config.tasks.items() if t.share_pooling}
    tasks: dict[str, TaskModule | HeadOnSharedPooling] = {**modules}
    for name, owner in pools.items():
        tasks[name] = _head_on_shared_pooling(config, name, modules[name], modules[owner])
    # built after the heads, so that heads have the same initial weights without adapters
    adapted = [name for name in tasks if config.tasks[name].adapter and name not in pools]
    adapters = {name: _adapter(config, name, encoder) for name in adapted}
    training = [name for name, task in config.tasks.items() if not task.only_scored]
    return MultiTaskModel(
        encoder,
        tasks,
        adapters=adapters,
        owners={name: task.share_head for name, task in config.tasks.items() if task.share_head},
        pools=pools,
        uncertain=training if config.training.loss_weighting == "uncertainty" else (),
        autocast=autocast,
    )


def _adapter(config: Config, task: str, encoder: Encoder) -> Any:
    """Build a task's adapter. Raises UserError if the encoder's layers cannot have it."""
    context = {**_sizes(encoder), "maps": encoder.linear_maps()}
    adapter, path = _build(config, task, "adapter", context), ("tasks", task, "adapter")
    if isinstance(encoder, BertEncoder):
        return adapter
    if not adapter.in_maps:
        message = "needs the layers of our own encoder; this one runs in `transformers`, for which"
        raise config.error(path, f"it {message} there is `lora`")
    if config.encoder.gradient_checkpointing:
        message = "in an encoder of `transformers` an adapter cannot be computed again in the "
        message += "backward pass: leave out `encoder.gradient_checkpointing`"
        raise config.error(path, message)
    return adapter


def _task_module(
    config: Config, name: str, encoder: Encoder, weights: HeadWeights, *, context: Mapping[str, Any]
) -> TaskModule:
    """Build a task's pooler, projection and head, in this order: all draw random numbers."""
    task = config.tasks[name]
    pooler = _build(config, name, "pooling", _sizes(encoder))
    projection: Any = nn.Identity()
    if task.projection is not None:
        widths = {"dim": pooler.output_dim, "encoder_dim": encoder.dim}
        supplied = {**widths, "pooler_weights": weights.pooler}
        projection = _build(config, name, "projection", supplied)
    dim = getattr(projection, "output_dim", pooler.output_dim)
    supplied = {
        "dim": dim,
        "word_embedding": encoder.word_embedding,
        "norm_eps": encoder.norm_eps,
        "mlm_weights": weights.masked_lm,
        "encoder": encoder,
        **context,
    }
    head = _build(config, name, "head", supplied)
    eval_pooler = _eval_pooler(config, name, encoder, head=head, dim=dim)
    return TaskModule(pooler, projection, head, task.dropout, eval_pooler)


def _head_on_shared_pooling(
    config: Config, name: str, module: TaskModule, pool: TaskModule
) -> HeadOnSharedPooling:
    """Put a task's head on the pooling of another task, whose module is ``pool``.

    Raises UserError if the head would be trained with a projection that scoring leaves out.
    """
    task = config.tasks[name]
    weights = any(True for _ in module.head.parameters())
    if weights and pool.head.mlp_only_train:
        message = f"{task.share_pooling!r} scores without its projection (`mlp_only_train`), with "
        message += "which this head would be trained: leave one of the two out"
        raise config.error(("tasks", name, "share_pooling"), message)
    return HeadOnSharedPooling(pool, module.head, task.dropout)


def _sizes(encoder: Encoder) -> dict[str, int]:
    """Return the encoder's sizes, which poolers and adapters take."""
    return {"dim": encoder.dim, "num_layers": encoder.num_layers}


def _eval_pooler(config: Config, task: str, encoder: Encoder, *, head: Any, dim: int) -> Any:
    """Build the pooler of ``eval_pooling``, if any, for a head that takes vectors of width ``dim``.

    Raises UserError for a pooler that has parameters, or gives vectors of another width.
    """
    choice = config.tasks[task].eval_pooling
    if choice is None:
        return None
    pooler = _build(config, task, "eval_pooling", _sizes(encoder))
    path = ("tasks", task, "eval_pooling")
    if any(True for _ in pooler.parameters()):
        raise config.error(path, f"{choice.name!r} has parameters, which would never be trained")
    weights = any(True for _ in head.parameters())
    if weights and config.tasks[task].projection:
        message = "scoring leaves out the projection, with which this head would be trained"
        raise config.error(path, f"{message}: leave one of the two out")
    if weights and pooler.output_dim != dim:
        message = f"{choice.name!r} gives {pooler.output_dim} numbers, the head was built for {dim}"
        raise config.error(path, message)
    return pooler


def _build(config: Config, task: str, kind: str, context: Mapping[str, Any]) -> Any:
    choice = getattr(config.tasks[task], kind)
    registered = "pooling" if kind == "eval_pooling" else kind
    with config.errors_at(("tasks", task, kind)):
        return build(registered, choice.name, choice.options, context)
