"""AdamW with its parameter groups, and the learning-rate schedules of `transformers`."""

from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from multitask.config import Config
from multitask.model import MultiTaskModel


def build_optimizer(model: MultiTaskModel, config: Config) -> torch.optim.AdamW:
    """Fused AdamW: the encoder at ``training.lr``, each task's own part at its ``head_lr``.

    Biases and LayerNorms (every parameter with fewer than two dimensions) are not decayed.
    Frozen parameters are left out.
    """
    training = config.training
    parts = [("encoder", model.encoder, training.lr)]
    for name, module in model.tasks.items():
        parts.append((name, module, config.tasks[name].head_lr or training.head_lr))
    groups: list[dict[str, Any]] = []
    for name, part, lr in parts:
        trained = [parameter for parameter in part.parameters() if parameter.requires_grad]
        for decay in (True, False):
            chosen = [p for p in trained if (p.ndim >= 2) == decay]
            weight_decay = training.weight_decay if decay else 0.0
            if chosen:
                groups.append(
                    {"params": chosen, "lr": lr, "weight_decay": weight_decay, "name": name}
                )
    betas = (training.betas[0], training.betas[1])
    return torch.optim.AdamW(groups, betas=betas, eps=training.eps, fused=True)


def build_scheduler(optimizer: torch.optim.Optimizer, config: Config, total_steps: int) -> LambdaLR:
    """The schedule of ``training.schedule`` over ``total_steps``, after a linear warm-up."""
    from transformers import get_scheduler

    name = config.training.schedule
    return get_scheduler(
        "constant_with_warmup" if name == "constant" else name,
        optimizer,
        num_warmup_steps=round(config.training.warmup * total_steps),
        num_training_steps=total_steps,
    )
