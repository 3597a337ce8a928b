"""AdamW with its parameter groups, and the learning-rate schedules of `transformers`."""

import re
from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from multitask.config import TrainingConfig
from multitask.models.multitask_model import MultiTaskModel, adapter_part

# names of the encoder's parameter groups; no task may have such a name
ENCODER_GROUPS = r"encoder|embeddings|layer_\d+"


def build_optimizer(
    model: MultiTaskModel,
    training: TrainingConfig,
    head_lrs: Mapping[str, float],
    adapter_lrs: Mapping[str, float] | None = None,
) -> torch.optim.AdamW:
    """Build a fused AdamW over the parameters that are not frozen.

    Learning rates:

    - The encoder's last layer uses ``training.lr``. Each layer below uses ``layer_decay`` times the
      rate of the layer above it.
    - The modules of each task in ``head_lrs`` use the rate given there. Its adapter uses the rate
      in ``adapter_lrs`` (default: ``training.lr``).
    - Learned loss weights use ``training.head_lr``.

    Biases, LayerNorms (every parameter with fewer than two dimensions) and learned loss weights
    have no weight decay.
    """
    inside = dict.fromkeys(head_lrs, training.lr) | dict(adapter_lrs or {})
    heads = _owned(model, model.tasks, head_lrs, str)
    adapters = _owned(model, model.adapters, inside, adapter_part)
    learned = [
        ("loss_weights", [parameter], training.head_lr)
        for task, parameter in model.log_variances.items()
        if task in head_lrs
    ]
    groups = [
        {"params": chosen, "lr": lr, "weight_decay": rate, "name": name}
        for name, parameters, lr in [*_encoder(model, training), *heads, *adapters, *learned]
        for decay, rate in ((True, training.weight_decay), (False, 0.0))
        if (chosen := [p for p in parameters if p.requires_grad and (p.ndim >= 2) == decay])
    ]
    betas = (training.betas[0], training.betas[1])
    return torch.optim.AdamW(groups, betas=betas, eps=training.eps, fused=True)


def _encoder(
    model: MultiTaskModel, training: TrainingConfig
) -> list[tuple[str, list[nn.Parameter], float]]:
    if training.layer_decay == 1:
        return [("encoder", list(model.encoder.parameters()), training.lr)]
    layers = model.encoder.layer_parameters()
    last = len(layers) - 1
    names = ["embeddings", *(f"layer_{depth}" for depth in range(1, last)), "encoder"]
    rates = [training.lr * training.layer_decay ** (last - depth) for depth in range(last + 1)]
    return list(zip(names, layers, rates, strict=True))


def encoder_rate(rates: Mapping[str, float]) -> float:
    """Return the highest rate of the encoder's parameter groups; 0 if the encoder is frozen."""
    parts = [rate for name, rate in rates.items() if re.fullmatch(ENCODER_GROUPS, name)]
    return max(parts, default=0.0)


def _owned(
    model: MultiTaskModel,
    modules: Mapping[str, nn.Module],
    rates: Mapping[str, float],
    name: Callable[[str], str],
) -> list[tuple[str, list[nn.Parameter], float]]:
    """List each module once, with the rate of its owner, else of the first task that uses it."""
    groups: dict[str, tuple[str, list[nn.Parameter], float]] = {}
    for task in sorted(rates, key=lambda task: model.owners_of(task) != [task]):
        for owner in model.owners_of(task):
            if owner in modules:
                parameters = list(modules[owner].parameters())
                groups.setdefault(owner, (name(owner), parameters, rates[task]))
    return list(groups.values())


def build_scheduler(
    optimizer: torch.optim.Optimizer, training: TrainingConfig, total_steps: int
) -> LambdaLR:
    """Build the learning-rate schedule over ``total_steps``, with a linear warm-up."""
    from transformers import get_scheduler

    warmup, name = round(training.warmup * total_steps), training.schedule
    known_as = "constant_with_warmup" if name == "constant" else name
    options = {"power": training.schedule_power} if name == "polynomial" else None
    return get_scheduler(
        known_as, optimizer, warmup, total_steps, scheduler_specific_kwargs=options
    )
