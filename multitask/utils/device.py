"""Choose the device and the precision of a run."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multitask.utils.errors import UserError, warn

DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
DRIVER = Path("/proc/driver/nvidia/version")  # where NVIDIA's driver is loaded
FP16_SINCE = (7, 0)  # compute capability of the first cards with tensor cores, such as a V100


def pick_device(name: str) -> torch.device:
    """Return the device for a config's ``device``; `auto` takes a GPU if there is one.

    Raises UserError if this machine does not have the device.
    """
    if name in ("auto", "cuda") and torch.cuda.is_available():
        number = os.environ.get("LOCAL_RANK", "0")  # set by torchrun and accelerate
        processes, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", 1)), torch.cuda.device_count()
        if processes > gpus:  # every process raises it, but only the first one prints
            message = f"{processes} processes, and this machine has {gpus} GPUs: start one for each"
            raise UserError(message + ", or set `device: cpu`")
        name = f"cuda:{number}"  # `torch.cuda.set_device` wants the number
    if name == "auto":
        if DRIVER.exists():
            kind = "a CPU build" if torch.version.cuda is None else f"for CUDA {torch.version.cuda}"
            warn(
                f"this machine has an NVIDIA GPU, but this torch, {kind}, cannot use it: install "
                "a build for its driver (pytorch.org), or set `device: cpu`"
            )
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"no such device: {name!r} (auto, cpu, cuda, mps)") from None
    devices = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }
    if (device.index or 0) >= devices.get(device.type, 0):
        raise UserError(f"this machine has no {name!r} device: use `device: auto` or `cpu`")
    torch.backends.cudnn.allow_tf32 = False  # fp32 means fp32, in the GRU of HIRE too
    return device


def gpu_facts(device: torch.device) -> dict[str, str | float] | None:
    """Return a CUDA device's name, torch's CUDA version and the peak memory of this process in GiB.

    None for other devices.
    """
    if device.type != "cuda":
        return None
    peak = torch.cuda.max_memory_allocated(device) / 2**30
    name, version = torch.cuda.get_device_name(device), str(torch.version.cuda)
    return {"name": name, "cuda": version, "peak_memory_gib": round(peak, 3)}


def counts_launches(device: torch.device) -> bool:
    """Return True where starting an operation costs more than a few pads: not on a CPU."""
    return device.type != "cpu"


def send(arrays: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """Send arrays of one dtype to a device, in one transfer that nobody waits for.

    On a CPU the tensors share the memory of the arrays.
    """
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
    if device.type == "cuda":
        flat = flat.pin_memory()
    parts = flat.to(device, non_blocking=True).split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def autocast_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """Return the dtype of autocast for a config's ``precision``; None: everything is in fp32.

    `auto` takes bf16 where the hardware is faster in it, and fp16 on a CUDA card without bf16.
    """
    if precision != "auto":
        return DTYPES[precision]
    if device.type == "cuda":
        if not emulates_bf16(device):
            return torch.bfloat16
        return torch.float16 if torch.cuda.get_device_capability(device) >= FP16_SINCE else None
    fast = device.type == "cpu" and _fast_bf16(torch.cpu.get_capabilities())
    return torch.bfloat16 if fast else None


def precision_name(dtype: torch.dtype | None) -> str:
    """Return the name of an autocast dtype in configs and reports, such as "bf16"."""
    return next(name for name, known in DTYPES.items() if known == dtype)


def emulates_bf16(device: torch.device) -> bool:
    """Return True for a CUDA card that computes bf16 in fp32, which is slow."""
    return device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Return the context of torch's autocast to ``dtype``; for None it does nothing."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


def _fast_bf16(cpu: Mapping[str, Any]) -> bool:
    """Return True if a CPU with these capabilities multiplies matrices faster in bf16 than in fp32.

    Intel CPUs with avx512_fp16 (Sapphire Rapids and later) need AMX to be faster, and a virtual
    machine may hide it. With avx512_bf16 alone, the one we measured was slower than in fp32
    (docs/measured/performance.md).
    """
    if cpu.get("avx512_fp16") and str(cpu.get("cpu_name", "")).startswith("Intel"):
        return bool(cpu.get("amx_bf16"))
    return bool(cpu.get("avx512_bf16"))
