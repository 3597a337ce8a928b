"""Read and write named tensors in safetensors files."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from multitask.store.run_directory import RunDirectory, tensors_of
from multitask.store.tensor_files import has_checksum, write_with_checksum
from multitask.utils.errors import UserError, warn

Tensors = dict[str, Tensor]
M = TypeVar("M", bound=nn.Module)
ANEW = "train again or resume"


def write_tensors(file: Path, tensors: Tensors) -> None:
    """Write tensors to a safetensors file with its checksum, complete or not at all.

    Raises OSError (a full disk, a read-only directory); an older file stays as it is.
    """
    parts = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_with_checksum(file, lambda scratch, metadata: save_file(parts, scratch, metadata))


def read_tensors(file: Path, advice: str = ANEW) -> Tensors:
    """Read a safetensors file. Raises UserError with ``advice``: it is missing or damaged."""
    check_tensors(file, advice)
    return read_checked(file, advice)


def read_checked(file: Path, advice: str = ANEW) -> Tensors:
    """Read the tensors of a file that ``check_tensors`` or ``intact_weights`` has checked."""
    with _explained(file, advice):
        return load_file(file)


def intact_weights(run: RunDirectory, step: int) -> Path:
    """Check the file with the weights of a step and return it, for ``read_checked``.

    If it is damaged, warn and return the copy in a checkpoint. Raises UserError if that is damaged
    too.
    """
    file = run.weights_of(step)
    try:
        check_tensors(file)
    except UserError:
        for checkpoint in run.checkpoints_of(step):
            other = tensors_of(checkpoint, "model")
            with suppress(UserError):
                check_tensors(other)
                warn(f"{file} is missing or damaged: the weights in {checkpoint} are used")
                return other
        raise
    return file


def check_tensors(file: Path, advice: str = ANEW) -> None:
    """Raise UserError with ``advice`` for a file that is missing or damaged."""
    with _explained(file, advice):
        has_checksum(file)
        with safe_open(file, "pt"):
            pass


def build_fitting(build: Callable[[], M], files: Iterable[Path], prefix: str = "") -> M:
    """Build a model whose tensors are just those below ``prefix`` in each of the checked files.

    The shapes are compared first, without memory: a config with wrong sizes would fill the memory.
    Raises UserError if they differ.
    """
    with without_memory():
        tensors = build().state_dict()
    wanted = {
        prefix + name: _kind(tensor.shape, tensor.is_floating_point())
        for name, tensor in tensors.items()
    }
    for file in files:
        with _explained(file, ANEW), safe_open(file, "pt") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
            shapes = {
                name: _kind(tensor.get_shape(), tensor.get_dtype() in ("F64", "F32", "F16", "BF16"))
                for name, tensor in slices.items()
            }
        for name in [*wanted, *(name for name in shapes if name.startswith(prefix))]:
            saved, expected = shapes.get(name, "nothing"), wanted.get(name, "nothing")
            if saved != expected:
                raise UserError(
                    f"{file}: the weights do not fit the config: {name} is {saved} there and "
                    f"{expected} by the config: overrides may change data, device and precision, "
                    "not the model"
                )
    return build()


def _kind(shape: Iterable[int], floats: bool) -> str:
    """Describe a tensor, to compare it with another one."""
    return f"{list(shape)}{'' if floats else ' of integers'}"


@contextmanager
def _explained(file: Path, advice: str) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: cannot be read ({error}): {advice}") from error


@contextmanager
def without_memory() -> Iterator[None]:
    """Build modules whose tensors have shapes only, on the device `meta`."""
    with torch.device("meta"), _NoNormal():
        yield


class _NoNormal(TorchFunctionMode):
    """Leaves normal initialisation out: on `meta` torch imports its compiler for it."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") == "normal_":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def below(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """Return the tensors whose names begin with ``prefix``, without the prefix."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
