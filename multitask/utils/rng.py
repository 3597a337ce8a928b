"""Torch's random states as tensors: to save them, and to draw the same numbers twice."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def pack_rng() -> dict[str, Tensor]:
    """The random states of torch, on the CPU, on every GPU and on Apple's."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    if torch.backends.mps.is_available():
        states["mps"] = torch.mps.get_rng_state()
    return states


def unpack_rng(states: dict[str, Tensor]) -> None:
    """Restore what ``pack_rng`` returned; GPUs that are gone are left out."""
    torch.set_rng_state(states["cpu"])
    for i in range(torch.cuda.device_count()):
        if f"cuda{i}" in states:
            torch.cuda.set_rng_state(states[f"cuda{i}"], i)
    if torch.backends.mps.is_available() and "mps" in states:
        torch.mps.set_rng_state(states["mps"])


@contextmanager
def replayed(states: dict[str, Tensor]) -> Iterator[None]:
    """Draw from ``states`` on; afterwards the generators are as they were before."""
    after = pack_rng()
    unpack_rng(states)
    try:
        yield
    finally:
        unpack_rng(after)
