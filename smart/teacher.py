"""The momentum teacher of the Bregman proximal point (SMART, section 3.2 and Algorithm 1)."""

import copy
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)

EARLY_BETA, LATE_BETA = 0.99, 0.999  # for the first tenth of the updates, and for the rest


def teacher_of(model: M) -> M:
    """Return a copy without gradients, in evaluation mode: theta~ at the start."""
    return copy.deepcopy(model).requires_grad_(False).eval()


@torch.no_grad()
def follow(teacher: nn.Module, model: nn.Module, progress: float) -> None:
    """Update the teacher after an optimizer step: theta~ <- beta theta~ + (1 - beta) theta.

    Buffers, such as those of batch normalisation, are copied: they are running means already.

    Args:
        teacher: the momentum teacher, which is changed.
        model: the model.
        progress: share of the training that is done, with this step.
    """
    beta = EARLY_BETA if progress <= 0.1 else LATE_BETA
    torch._foreach_lerp_(list(teacher.parameters()), list(model.parameters()), 1 - beta)
    for old, new in zip(teacher.buffers(), model.buffers(), strict=True):
        old.copy_(new)
