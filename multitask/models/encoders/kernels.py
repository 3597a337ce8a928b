"""Compiled CPU kernels for the operations of an encoder layer between its matrix products.

An option (``encoder.kernels: compiled``). Torch's loader builds ``kernels.cpp`` on first use and
stores it in ``TORCH_EXTENSIONS_DIR``. The kernels make a training step of MiniLM about 1.1 times as
fast in fp32 and 1.3 times in bf16 on two cores: docs/performance.md.
"""

import os
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from multitask.models.encoders.dropout import LEVELS, draws
from multitask.models.encoders.packing import Packing
from multitask.utils.files import replacing

# one build per kind of processor, as several machines may share a home directory
FLAGS = {
    "AVX512": "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512",
    "AVX2": "-mavx2 -mfma",
}
SOURCE = Path(__file__).with_suffix(".cpp")


@cache
def load_kernels() -> None:
    """Load the kernels as ``torch.ops.multitask``; build them if there is no build yet.

    The name of a build is a hash of its source, flags, torch and Python. Each build has a scratch
    directory, because torch's loader would wait forever for the lock of a build that was killed.

    Raises:
        RuntimeError, OSError, or another error of torch's loader: no compiler, or it failed.
    """
    from torch.utils.cpp_extension import get_default_build_root, load

    kind = torch.backends.cpu.get_cpu_capability()
    flags = ["-O3", "-fopenmp", "-ffast-math", *FLAGS.get(kind, "").split()]
    made_of = "\n".join([SOURCE.read_text(), *flags, torch.__version__, sys.version])
    name = f"multitask_kernels_{kind.lower()}_{sha256(made_of.encode()).hexdigest()[:12]}"
    root = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root())
    library = root / f"{name}.so"
    if library.is_file():
        torch.ops.load_library(str(library))
        return
    beside = str(Path(sys.executable).parent)  # where pip puts ninja
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), beside])
    root.mkdir(parents=True, exist_ok=True)
    with replacing(library) as built:
        place = str(built.parent)
        load(name, [str(SOURCE)], flags, build_directory=place, is_python_module=False)
        (made,) = built.parent.glob("*.so")  # torch adds a number after a failed build
        made.rename(built)


def add_norm(added: Tensor, residual: Tensor, norm: nn.LayerNorm, rate: float) -> Tensor:
    """LayerNorm(residual + dropout(added)): float32 or bfloat16 and float32 [N, d] -> [N, d].

    It draws the same numbers from torch's generator as ``dropout``, so it drops the same elements.
    """
    return _AddNorm.apply(added, residual, norm.weight, norm.bias, norm.eps, rate)


def attention(qkv: Tensor, packing: Packing, heads: int, rate: float) -> Tensor:
    """Apply ``packed_attention`` to concatenated query, key and value: [N, 3 d] -> [N, d].

    It works sequence by sequence, without pads; dropout draws differ from ``packed_attention``.
    """
    return _Attention.apply(qkv, packing.starts, packing.squares, heads, rate)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, added: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float,
        rate: float,
    ) -> Tensor:  # fmt: skip
        drawn = draws(added.numel()) if rate else None
        dropped = round(rate * LEVELS)
        given = (added.contiguous(), residual.contiguous(), weight, bias, eps, drawn, dropped)
        out, *saved = torch.ops.multitask.add_norm(*given)
        ctx.save_for_backward(*saved, weight, drawn)
        ctx.dropped, ctx.dtype = dropped, added.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *saved, drawn = ctx.saved_tensors
        gradient = torch.ops.multitask.add_norm_backward(
            gradients[0].contiguous(), *saved, drawn, ctx.dropped, ctx.dtype
        )
        return *gradient, None, None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, starts: Tensor, squares: int, heads: int, rate: float
    ) -> Tensor:
        drawn = draws(squares * heads) if rate else None
        dropped = round(rate * LEVELS)
        out, weights = torch.ops.multitask.attention(
            qkv.contiguous(), starts, heads, drawn, dropped
        )
        ctx.save_for_backward(qkv, weights, starts, drawn)
        ctx.heads, ctx.dropped = heads, dropped
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *saved, drawn = ctx.saved_tensors
        gradient = torch.ops.multitask.attention_backward(
            gradients[0].contiguous(), *saved, ctx.heads, drawn, ctx.dropped
        )
        return gradient, None, None, None, None
