"""The momentum teacher of the Bregman proximal point (SMART, section 3.2 and Algorithm 1)."""

import copy
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)

EARLY_BETA, LATE_BETA = 0.99, 0.999  # the first tenth of the updates, and the rest


def teacher_of(model: M) -> M:
    """A copy in evaluation mode that no gradient reaches: theta~ at the start."""
    return copy.deepcopy(model).requires_grad_(False).eval()


@torch.no_grad()
def follow(teacher: nn.Module, model: nn.Module, progress: float) -> None:
    """theta~ <- beta theta~ + (1 - beta) theta, after the optimizer's step; buffers are copied.

    They are running means of their own, such as those of batch normalisation.

    Args:
        teacher: moves.
        model: stays.
        progress: share of the training that is done, this step included.
    """
    beta = EARLY_BETA if progress <= 0.1 else LATE_BETA
    for own, theirs in zip(teacher.parameters(), model.parameters(), strict=True):
        own.lerp_(theirs, 1 - beta)
    for kept, current in zip(teacher.buffers(), model.buffers(), strict=True):
        kept.copy_(current)
