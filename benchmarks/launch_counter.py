"""Count on a CPU what a step asks of a GPU: launches, and waits of the host."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from multitask.models import linear
from multitask.utils.device import counts_launches

NOTHING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh",
           "_unsafe_view", "_reshape_alias", "is_same_size"}  # fmt: skip


def branching() -> list[ModuleType]:
    """The modules of ours that ask if launches count, which they do on a GPU."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] in ("multitask", "heads", "pals", "smart")
        and getattr(module, "counts_launches", None) is counts_launches
    ]


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Let every module of ours take the branch of a GPU on a CPU."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(linear, "ONEDNN", False))  # a CPU's products
        for module in branching():
            patches.enter_context(patch.object(module, "counts_launches", lambda device: True))
        yield


class Launches(TorchDispatchMode):
    """Counts the operators that are not views; ``as_one`` counts as one operator, as on CUDA."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.inside = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        space, name = func._schema.name.split("::")
        views = any(r.alias_info is not None and not r.alias_info.is_write
                    for r in func._schema.returns)  # fmt: skip
        if not (self.inside or views or name in NOTHING or space == "profiler"):
            self.count += 1
        return func(*args, **(kwargs or {}))

    @contextmanager
    def as_one(self) -> Iterator[None]:
        """Count all that the block does as one launch."""
        self.count += 1
        self.inside = True
        try:
            yield
        finally:
            self.inside = False


class _OneEach(torch.autograd.Function):
    """One launch forward, one backward, with results of the right shape."""

    @staticmethod
    def forward(ctx: Any, counter: Launches, *inputs: Tensor) -> Tensor:
        ctx.counter = counter
        ctx.save_for_backward(*inputs)
        with counter.as_one():
            return inputs[0].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        with ctx.counter.as_one():
            return None, *(x.clone() for x in ctx.saved_tensors)


@contextmanager
def launches() -> Iterator[Launches]:
    """Count the launches of a block. Dropout and attention are one each way, as on CUDA; what they
    compute there is nonsense of the right shape."""
    counter = Launches()

    def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return _OneEach.apply(counter, x) if training and p else x

    def attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Tensor:
        return _OneEach.apply(counter, query, key, value)

    with (
        patch.object(functional, "dropout", dropout),
        patch.object(functional, "scaled_dot_product_attention", attention),
        counter,
    ):
        yield counter


class Waits(TorchFunctionMode):
    """Counts how often the host reads a tensor of a device.

    The meta device takes the place of a GPU: a read gives ones, and everything else that would need
    a value, and so a wait, raises an error.
    """

    READS: frozenset[Any] = frozenset(
        (Tensor.tolist, Tensor.item, Tensor.cpu, Tensor.numpy, Tensor.__bool__, Tensor.__float__,
         Tensor.__int__)
    )  # fmt: skip

    def __init__(self, device: str = "meta") -> None:
        super().__init__()
        self.device, self.count = device, 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        if func in self.READS and args[0].device.type == self.device:
            self.count += 1
            if args[0].is_meta:
                args = (torch.ones(args[0].shape, dtype=args[0].dtype),)
        return func(*args, **(kwargs or {}))
