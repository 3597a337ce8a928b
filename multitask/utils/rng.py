"""Save and restore torch's random states, and draw the same numbers twice."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from multitask.utils import distributed


def pack_rng() -> dict[str, Tensor]:
    """Return the random states of torch: of the CPU, of every GPU and of Apple's GPU."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    if torch.backends.mps.is_available():
        states["mps"] = torch.mps.get_rng_state()
    return states


def unpack_rng(states: dict[str, Tensor]) -> None:
    """Restore the states from ``pack_rng``; those of missing GPUs are ignored."""
    torch.set_rng_state(states["cpu"])
    for i in range(torch.cuda.device_count()):
        if f"cuda{i}" in states:
            torch.cuda.set_rng_state(states[f"cuda{i}"], i)
    if torch.backends.mps.is_available() and "mps" in states:
        torch.mps.set_rng_state(states["mps"])


class RandomState:
    """The random states of all processes, as an object that checkpoints can save."""

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Return the states of each process by its rank."""
        return {str(rank): states for rank, states in enumerate(distributed.gather(pack_rng()))}

    def load_state_dict(self, state: Mapping[str, dict[str, Tensor]]) -> None:
        """Restore the states of this process. A process without saved states keeps its seed."""
        if str(distributed.rank()) in state:
            unpack_rng(state[str(distributed.rank())])


@contextmanager
def replayed(states: dict[str, Tensor]) -> Iterator[None]:
    """Set the generators to ``states`` for the block, and restore them afterwards."""
    after = pack_rng()
    unpack_rng(states)
    try:
        yield
    finally:
        unpack_rng(after)
