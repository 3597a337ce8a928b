"""Train one model in several processes. With one process, every call here does nothing.

All ranks take the same step, each with its share of the rows. Gradients are summed once, before
clipping. ``torchrun`` and ``accelerate launch`` start the processes and set their ranks.
"""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed

from multitask.utils.errors import PeerLost, UserError, reason_of

PATIENCE = timedelta(hours=2)  # for the first process, while it tokenizes
PIECE = 64 * 2**20  # bytes of gradients that are summed in one call
UNSET = "start with a launcher such as torchrun, or unset WORLD_SIZE"

T = TypeVar("T")


def planned_world() -> int:
    """Return the number of processes that the launcher started for this run."""
    size = os.environ.get("WORLD_SIZE", "1")
    if not size.isdecimal() or int(size) < 1:
        raise UserError(f"WORLD_SIZE={size}: expected a number of processes: {UNSET}")
    return int(size)


def own_seed(seed: int) -> int:
    """Return this process's seed: each has other dropout masks, and no other seed has the same."""
    sequence = np.random.SeedSequence((seed, rank()))
    return seed if rank() == 0 else int(sequence.generate_state(1)[0])


def world() -> int:
    """Return the number of processes that train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


@contextmanager
def processes(device: torch.device) -> Iterator[None]:
    """Join the process group of the launcher for the block."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if planned_world() == 1:
        yield
        return
    # transformers imports this later: then its default arguments would keep the group for ever, and
    # a thread of the group could abort the process while Python ends
    import_module("torch.distributed.nn.functional")
    # objects travel over gloo: nccl would send them through the GPU's memory
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    try:
        with _peers():
            distributed.init_process_group(backend, timeout=PATIENCE)
    except ValueError as error:  # a variable that a launcher sets is missing
        raise UserError(f"{reason_of(error)}: {UNSET}") from error
    try:
        yield
    finally:
        distributed.destroy_process_group()


@contextmanager
def _peers() -> Iterator[None]:
    """Raise PeerLost if a collective call fails: another process has ended."""
    try:
        yield
    except RuntimeError as error:  # gloo and nccl raise it, or a subclass
        raise PeerLost(
            "another process of this run has ended; what was saved before is intact: go on with "
            "the same command and --resume"
        ) from error


def on_first(function: Callable[[], T]) -> T:
    """Call ``function`` on rank 0; all ranks return its result, or raise its error."""
    if world() == 1:
        return function()
    answer: list[Any] = [None]
    failure: Exception | None = None
    if rank() == 0:
        try:
            answer = [function()]
        except (UserError, OSError) as error:
            answer = [error]
        except Exception as error:  # the other ranks may be unable to unpickle it
            failure, answer = error, [PeerLost("the first process of this run has failed")]
    with _peers():
        distributed.broadcast_object_list(answer, src=0)
    if failure is not None:
        raise failure
    if isinstance(answer[0], UserError | OSError):
        raise answer[0]
    return answer[0]


def first_alone(function: Callable[[], T]) -> T:
    """Call ``function`` on rank 0, then on the others, which find what it has put into a cache.

    All ranks raise an error of rank 0.
    """
    results: list[T] = []
    on_first(lambda: results.append(function()))
    return results[0] if results else function()


def gather(value: T) -> list[T]:
    """Return the values of all ranks, in order of rank, on every rank."""
    if world() == 1:
        return [value]
    values: list[Any] = [None] * world()
    with _peers():
        distributed.all_gather_object(values, value)
    return values


def check_seen(directory: Path) -> None:
    """Raise UserError if a machine of the run does not see the run's directory."""
    seen = gather((socket.gethostname(), directory.is_dir()))
    blind = sorted({host for host, there in seen if not there})
    if blind:
        raise UserError(
            f"{directory} is not there on {', '.join(blind)}: all machines of a run need one "
            "directory, such as on a shared file system"
        )


def total(values: Sequence[float], device: torch.device) -> list[float]:
    """Sum each value over the ranks, in float64."""
    if world() == 1:
        return list(values)
    return summed(torch.tensor(values, dtype=torch.float64, device=device)).tolist()


def summed(numbers: Tensor) -> Tensor:
    """Sum numbers [n] over the ranks, in float64, without a wait."""
    if world() == 1:
        return numbers
    wide = numbers.to(torch.float64, copy=True)
    with _peers():
        distributed.all_reduce(wide)
    return wide


def add_tensors(tensors: Sequence[Tensor]) -> None:
    """Sum each tensor over the ranks, in place; some at a time, so that the copy stays small."""
    if world() == 1:
        return
    for piece in _pieces(tensors):
        flat = torch.cat([tensor.flatten() for tensor in piece])
        with _peers():
            distributed.all_reduce(flat)
        sizes = [tensor.numel() for tensor in piece]
        for tensor, part in zip(piece, flat.split(sizes), strict=True):
            tensor.copy_(part.view_as(tensor))


def _pieces(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Divide tensors, in order, into pieces of at most ``PIECE`` bytes or one tensor."""
    piece: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if piece and size + tensor.nbytes > PIECE:
            yield piece
            piece, size = [], 0
        piece.append(tensor)
        size += tensor.nbytes
    if piece:
        yield piece


class _Gather(torch.autograd.Function):
    """Gather the rows [n, ...] of all ranks, in order of rank: [world * n, ...].

    ``n`` must be the same on all ranks. In the backward pass, the rows of a rank get the sum of
    their gradients on all ranks. (``torch.distributed.nn.functional.all_gather`` does the same but
    is deprecated.)
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        gathered = [torch.empty_like(rows) for _ in range(world())]
        with _peers():
            distributed.all_gather(gathered, rows)
        return torch.cat(gathered)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        summed = gradients[0].clone(memory_format=torch.contiguous_format)
        with _peers():
            distributed.all_reduce(summed)
        return summed.chunk(world())[rank()]


def gather_rows(rows: Tensor, fill: float = 0) -> Tensor:
    """Gather the rows [n, ...] of all ranks, with a gradient: [world * most rows, ...].

    The rows of a rank with fewer rows than another are padded with ``fill``.
    """
    if world() == 1:
        return rows
    most = max(gather(len(rows)))
    padding = rows.new_full((most - len(rows), *rows.shape[1:]), fill)
    return _Gather.apply(torch.cat([rows, padding]))


def shard(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """Return this rank's share of the rows of a batch, and how many of them count.

    No row counts on two ranks. If a batch has too few rows for all ranks, a rank gets the first
    row with a count of 0: then all ranks have gradients of the same parameters to sum.
    """
    share = rows[rank() :: world()]
    return (share, len(share)) if len(share) else (rows[:1], 0)


def in_order(parts: list[tuple[int, Tensor]], device: torch.device) -> list[Tensor]:
    """Gather the numbered parts of all ranks, sorted by number, on the ``device`` of each rank."""
    if world() == 1:
        return [part for _, part in parts]
    everyone = gather([(number, part.cpu()) for number, part in parts])
    by_number = dict(item for parts in everyone for item in parts)
    return [by_number[number].to(device) for number in sorted(by_number)]
