"""Several processes that train one model: every call does nothing where there is only one.

All ranks take the same step with their share of its rows; gradients are summed once, before
clipping. ``torchrun`` and ``accelerate launch`` start the processes and set their numbers.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from multitask.utils.errors import PeerLost, UserError

T = TypeVar("T")


def planned_world() -> int:
    """Processes that the launcher has started for this run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def world() -> int:
    """Processes that train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """This process's number, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


@contextmanager
def processes(device: torch.device) -> Iterator[None]:
    """Join the launcher's other processes, and leave them at the end."""
    if planned_world() == 1:
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with _peers():
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


@contextmanager
def _peers() -> Iterator[None]:
    """A collective call; its failure means that another process has gone."""
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
        except Exception as error:  # it may be of a kind that the others cannot load
            failure, answer = error, [PeerLost("the first process of this run has failed")]
    with _peers():
        distributed.broadcast_object_list(answer, src=0)
    if failure is not None:
        raise failure
    if isinstance(answer[0], UserError | OSError):
        raise answer[0]
    return answer[0]


def gather(value: T) -> list[T]:
    """Every rank's value, in order of rank, on all ranks."""
    if world() == 1:
        return [value]
    found: list[Any] = [None] * world()
    with _peers():
        distributed.all_gather_object(found, value)
    return found


def total(values: Sequence[float], device: torch.device) -> list[float]:
    """Each value summed over the ranks, in float64."""
    if world() == 1:
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    with _peers():
        distributed.all_reduce(tensor)
    return tensor.tolist()


def add_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Sum the gradients over the ranks, in place, in one call."""
    add_tensors([p.grad for p in parameters if p.grad is not None])


def add_tensors(tensors: Sequence[Tensor]) -> None:
    """Sum each tensor over the ranks, in place, in one call."""
    if world() == 1 or not tensors:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    with _peers():
        distributed.all_reduce(flat)
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, summed in zip(tensors, flat.split(sizes), strict=True):
        tensor.copy_(summed.view_as(tensor))


class _Gather(torch.autograd.Function):
    """Rows [n, ...] of every rank in order of rank [world * n, ...]; n is the same on all.

    Backward, a rank's rows get the sum of what all ranks have for them. (torch's own
    ``distributed.nn.functional.all_gather`` does this too and is deprecated.)
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        found = [torch.empty_like(rows) for _ in range(world())]
        with _peers():
            distributed.all_gather(found, rows)
        return torch.cat(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        summed = gradients[0].clone(memory_format=torch.contiguous_format)
        with _peers():
            distributed.all_reduce(summed)
        return summed.chunk(world())[rank()]


def gather_rows(rows: Tensor, fill: float = 0) -> Tensor:
    """Every rank's rows [n, ...] in order of rank, with a gradient: [world * most rows, ...].

    Where a rank has fewer rows than another, ``fill`` stands after them.
    """
    if world() == 1:
        return rows
    most = max(gather(len(rows)))
    padding = rows.new_full((most - len(rows), *rows.shape[1:]), fill)
    return _Gather.apply(torch.cat([rows, padding]))


def shard(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """This rank's part of a batch's rows, and how many of them count.

    No row is on two ranks. A rank for which none is left gets the first row and counts 0 of it,
    so that all ranks have the same gradients to add.
    """
    own = rows[rank() :: world()]
    return (own, len(own)) if len(own) else (rows[:1], 0)


def in_order(parts: list[tuple[int, Tensor]], device: torch.device) -> list[Tensor]:
    """The numbered parts of all ranks, in order of their numbers, on every rank's ``device``."""
    if world() == 1:
        return [part for _, part in parts]
    everyone = gather([(number, part.cpu()) for number, part in parts])
    found = dict(item for one in everyone for item in one)
    return [found[number].to(device) for number in sorted(found)]
