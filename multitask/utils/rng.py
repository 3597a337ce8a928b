"""Torch's random states as tensors: to save them, and to draw the same numbers twice."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from multitask.utils import distributed


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


class RandomState:
    """The random states of all processes, to save and restore."""

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Return each process's states by its rank."""
        return {str(rank): states for rank, states in enumerate(distributed.gather(pack_rng()))}

    def load_state_dict(self, state: Mapping[str, dict[str, Tensor]]) -> None:
        """Restore this process's states; a process that was not there before keeps its seed."""
        if str(distributed.rank()) in state:
            unpack_rng(state[str(distributed.rank())])


@contextmanager
def replayed(states: dict[str, Tensor]) -> Iterator[None]:
    """Draw from ``states`` on; afterwards the generators are as they were before."""
    after = pack_rng()
    unpack_rng(states)
    try:
        yield
    finally:
        unpack_rng(after)
