"""Linear layers of encoder and GRU, which use oneDNN for fp32 on an AMD CPU with AVX-512.

Torch uses MKL there, which leaves AVX-512 unused on AMD processors. oneDNN, which torch uses for
bf16, does not. On Intel processors, and with only AVX2, MKL is faster
(docs/measured/performance.md). The results differ in the order of summation, so the choice depends
on the processor alone and never on a timing. This file is the only one that calls two private
functions of torch; without them it uses MKL.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


def _has_private_parts() -> bool:
    """Return True if this version of torch has the two private functions that are used below."""
    product = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return product and hasattr(torch._C, "_will_engine_execute_node")


def prefers_onednn(cpu: Mapping[str, Any]) -> bool:
    """Return True if oneDNN has the faster fp32 products on a CPU with these capabilities.

    Args:
        cpu: the value of ``torch.cpu.get_capabilities()``.
    """
    return bool(cpu.get("avx512_f")) and not str(cpu.get("cpu_name", "")).startswith("Intel")


ONEDNN = (
    torch.backends.mkl.is_available()
    and torch.backends.mkldnn.is_available()
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
    and prefers_onednn(torch.cpu.get_capabilities())
    and _has_private_parts()
)


class Linear(nn.Linear):
    """``nn.Linear`` on token rows, faster in fp32 on a CPU."""

    def forward(self, hidden: Tensor) -> Tensor:
        """[N, i] -> [N, o]."""
        return linear(hidden, self.weight, self.bias)


def linear(hidden: Tensor, weight: Tensor, bias: Tensor, rows: slice | None = None) -> Tensor:
    """hidden weight^T + bias: [N, i], [o, i] and [o] -> [N, o], or only the outputs ``rows``."""
    inputs = (hidden, weight, bias) if rows is None else (hidden, weight[rows], bias[rows])
    fp32 = all(x.dtype == torch.float32 and x.device.type == "cpu" for x in inputs)
    cast = torch.is_autocast_enabled("cpu")
    if ONEDNN and fp32 and hidden.ndim == 2 and not cast and not torch.compiler.is_compiling():
        return _Linear.apply(*(x.view_as(x) for x in inputs))  # no leaves: see `backward`
    return functional.linear(*inputs)


def _product(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``functional.linear`` by oneDNN, for any strides, without autograd."""
    return torch.ops.mkldnn._linear_pointwise(hidden, weight, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        return _product(hidden, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        # `needs_input_grad` is also true of what `torch.autograd.grad` was not asked for
        asked = torch._C._will_engine_execute_node
        by_hidden, by_weight, by_bias = (n is not None and asked(n) for n, _ in ctx.next_functions)
        return (
            _product(gradient, weight.t()) if by_hidden else None,
            _product(gradient.t(), hidden.t()) if by_weight else None,
            gradient.sum(0) if by_bias else None,
        )
