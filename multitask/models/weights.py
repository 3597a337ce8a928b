"""Named tensors in safetensors files."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from multitask.utils.errors import UserError
from multitask.utils.files import replacing

Tensors = dict[str, Tensor]


def write_tensors(file: Path, tensors: Tensors) -> None:
    """Write tensors to a safetensors file, complete or not at all.

    Raises OSError (a full disk, a read-only directory); nothing older is touched then.
    """
    with replacing(file) as scratch:
        try:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, scratch)
        except SafetensorError as error:  # safetensors wraps the system's error
            raise OSError(f"{file}: {error}") from error


def read_tensors(file: Path, device: str = "cpu") -> Tensors:
    """Tensors of a safetensors file. Raises UserError when it is missing or damaged."""
    try:
        return load_file(file, device=device)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: cannot be read ({error}): train again or resume") from error


def below(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """The tensors whose names begin with ``prefix``, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
