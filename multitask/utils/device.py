"""Choose the device and the precision of a run."""

import os
from collections.abc import Mapping
from typing import Any

import torch

from multitask.utils.errors import UserError


def pick_device(name: str) -> torch.device:
    """Return the device for a config's ``device``; `auto` takes a GPU if there is one.

    Raises UserError if this machine does not have the device.
    """
    number = os.environ.get("LOCAL_RANK")  # set by torchrun and accelerate
    if name in ("auto", "cuda") and torch.cuda.is_available() and number is not None:
        name = f"cuda:{number}"
        processes, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", 1)), torch.cuda.device_count()
        if processes > gpus:  # every process raises it, but only the first one prints
            message = f"{processes} processes, and this machine has {gpus} GPUs: start one for each"
            raise UserError(message + ", or set `device: cpu`")
    if name == "auto":
        return best_device()
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
    return device


def best_device() -> torch.device:
    """Return a GPU if there is one, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def use_autocast(precision: str, device: torch.device) -> bool:
    """Return True for bf16 autocast. `auto` uses it where the hardware is faster in bf16."""
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and _fast_bf16(torch.cpu.get_capabilities())


def _fast_bf16(cpu: Mapping[str, Any]) -> bool:
    """Return True if a CPU with these capabilities multiplies matrices faster in bf16 than in fp32.

    Intel CPUs with avx512_fp16 (Sapphire Rapids and later) need AMX to be faster, and a virtual
    machine may hide it. With avx512_bf16 alone, the one we measured was slower than in fp32
    (docs/performance.md).
    """
    if cpu.get("avx512_fp16") and str(cpu.get("cpu_name", "")).startswith("Intel"):
        return bool(cpu.get("amx_bf16"))
    return bool(cpu.get("avx512_bf16"))
