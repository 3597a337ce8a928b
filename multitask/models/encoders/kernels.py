"""Compiled CPU kernels for the operations of an encoder layer between its matrix products.

``encoder.kernels: auto`` uses them where they can be built. Torch's loader builds ``kernels.cpp``
on first use and stores it in ``TORCH_EXTENSIONS_DIR``. The kernels make a training step of MiniLM
about 1.2 times as fast in fp32 and 1.3 to 1.8 times in bf16: docs/measured/performance.md.
"""

import os
import shutil
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from multitask.models.encoders.dropout import LEVELS, draws
from multitask.models.encoders.operators import Operators
from multitask.models.encoders.packing import Packing
from multitask.store.files import replacing, write_text
from multitask.utils.errors import reason_of
from multitask.utils.names import KERNELS_VARIABLE

# one build per kind of processor, as several machines may share a home directory
FLAGS = {
    "AVX512": "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512",
    "AVX2": "-mavx2 -mfma",
}
SOURCE = Path(__file__).with_suffix(".cpp")


def automatic(device: torch.device) -> tuple[str, str]:
    """Return the kernels that `auto` means for our encoder, and why not "compiled", if so.

    They depend on the machine alone, so that the same command gives the same numbers there. With
    ``MULTITASK_KERNELS=torch`` they are torch's. A build that failed is not tried again.
    """
    asked = os.environ.get(KERNELS_VARIABLE)
    if asked == "torch" or device.type != "cpu" or sys.platform != "linux":
        return "torch", ""
    reason = _obstacle()
    return ("torch", reason) if reason else ("compiled", "")


def _obstacle() -> str:
    """Load the kernels, or return why this machine cannot."""
    from torch.utils.cpp_extension import get_cxx_compiler

    library = _library()
    if not library.is_file():
        failed = _failure(library)
        if failed.is_file():
            return f"an earlier build has failed: {failed} says why; delete it to try again"
        for tool in (get_cxx_compiler(), "ninja"):
            if shutil.which(tool, path=_search_path()) is None:
                return f"there is no {tool!r} to build them: install it"
    try:
        load_kernels(again=False)
    except Exception as error:  # the compiler, the disk, the loader: many kinds
        return f"they cannot be compiled ({reason_of(error, 200)})"
    return ""


def _library() -> Path:
    """Return the place of the build. Its name is a hash of source, flags, torch and Python."""
    from torch.utils.cpp_extension import get_default_build_root

    made_of = "\n".join([SOURCE.read_text(), *_flags(), torch.__version__, sys.version])
    kind = torch.backends.cpu.get_cpu_capability().lower()
    name = f"multitask_kernels_{kind}_{sha256(made_of.encode()).hexdigest()[:12]}.so"
    return Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root()) / name


def _failure(library: Path) -> Path:
    """Return the file that says why a build has failed."""
    return library.with_suffix(".failed")


def _flags() -> list[str]:
    kind = torch.backends.cpu.get_cpu_capability()
    return ["-O3", "-fopenmp", "-ffast-math", *FLAGS.get(kind, "").split()]


def _search_path() -> str:
    """Return where to look for tools: pip puts ninja next to Python."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


@cache
def load_kernels(*, again: bool = True) -> None:
    """Load the kernels as ``torch.ops.multitask``; build them if there is no build yet.

    One process builds at a time. With ``again`` a build that failed before is tried again.

    Raises:
        RuntimeError, OSError, or another error of torch's loader: no compiler, or it failed.
    """
    if hasattr(torch.ops.multitask, "attention"):
        return
    library = _library()
    if not library.is_file():
        library.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(library.with_suffix(".lock")):
            failed = _failure(library)
            if failed.is_file() and not again:
                raise RuntimeError(failed.read_text(encoding="utf-8"))
            if not library.is_file():
                _build(library)
                return
    torch.ops.load_library(str(library))


def _build(library: Path) -> None:
    """Build and load the kernels, or write why that failed.

    The build has a scratch directory, because torch's loader would wait forever for the lock of a
    build that was killed.
    """
    from torch.utils.cpp_extension import load

    os.environ["PATH"] = _search_path()
    try:
        with replacing(library) as built:
            place = str(built.parent)
            load(
                library.stem, [str(SOURCE)], _flags(), build_directory=place, is_python_module=False
            )
            (made,) = built.parent.glob("*.so")  # torch adds a number after a failed build
            made.rename(built)
    except Exception as error:
        write_text(_failure(library), reason_of(error))
        raise
    _failure(library).unlink(missing_ok=True)


def add_norm(added: Tensor, residual: Tensor, norm: nn.LayerNorm, rate: float) -> Tensor:
    """LayerNorm(residual + dropout(added)): float32 or bfloat16 and float32 [N, d] -> [N, d].

    It draws the same numbers from torch's generator as ``dropout``, so it drops the same elements.
    """
    return _AddNorm.apply(added, residual, norm.weight, norm.bias, norm.eps, rate)


def attention(
    qkv: Tensor, packing: Packing, heads: int, rate: float, bias: Tensor | None = None
) -> Tensor:
    """Apply ``packed_attention`` to concatenated query, key and value: [N, 3 d] -> [N, d].

    It works sequence by sequence, without pads; dropout draws differ from ``packed_attention``.
    """
    added = None if bias is None else bias.float()
    return _Attention.apply(qkv, added, packing.cu_seqlens, packing.squares, heads, rate)


COMPILED = Operators("compiled", attention, add_norm)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, added: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float,
        rate: float,
    ) -> Tensor:  # fmt: skip
        drawn = draws(added.numel()) if rate else None
        dropped = round(rate * LEVELS)
        inputs = (added.contiguous(), residual.contiguous(), weight, bias, eps, drawn, dropped)
        out, *saved = torch.ops.multitask.add_norm(*inputs)
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
        ctx: Any, qkv: Tensor, bias: Tensor | None, cu_seqlens: Tensor, squares: int, heads: int,
        rate: float,
    ) -> Tensor:  # fmt: skip
        drawn = draws(squares * heads) if rate else None
        dropped = round(rate * LEVELS)
        added = None if bias is None else bias.contiguous()
        out, weights = torch.ops.multitask.attention(
            qkv.contiguous(), added, cu_seqlens, heads, drawn, dropped
        )
        ctx.save_for_backward(qkv, weights, cu_seqlens, drawn)
        ctx.heads, ctx.dropped = heads, dropped
        ctx.places = 0 if bias is None else bias.shape[1]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *saved, drawn = ctx.saved_tensors
        gradient, added = torch.ops.multitask.attention_backward(
            gradients[0].contiguous(), *saved, ctx.heads, drawn, ctx.dropped, ctx.places
        )
        return gradient, added if ctx.places else None, None, None, None, None
