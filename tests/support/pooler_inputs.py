"""Poolers by name, and hidden states for them."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from multitask.config.registry import build

LENGTHS = [5, 2, 7, 1]


def make_pooler(name: str, dim: int, num_layers: int, **options: object) -> Any:
    """A pooler of the registry for an encoder of this size."""
    torch.manual_seed(0)
    return build("pooling", name, options, {"dim": dim, "num_layers": num_layers})


def sequences(
    layers: Iterable[int], dim: int, padding: int = 2, junk: float = 50.0
) -> tuple[dict[int, Tensor], Tensor]:
    """Hidden states of sentences of different lengths, with junk at pads; and the mask."""
    generator = torch.Generator().manual_seed(1)
    width = max(LENGTHS) + padding
    mask = torch.arange(width)[None] < torch.tensor(LENGTHS)[:, None]
    size = (len(LENGTHS), width, dim)
    states = {n: torch.randn(size, generator=generator, dtype=torch.float64) for n in layers}
    return {
        n: state.masked_fill(~mask[..., None], junk) for n, state in states.items()
    }, mask.long()
