"""Named tensors in safetensors files."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from multitask.utils.errors import UserError
from multitask.utils.files import replacing
from multitask.utils.limits import HEADER_BYTES

Tensors = dict[str, Tensor]
ANEW = "train again or resume"


def write_tensors(file: Path, tensors: Tensors) -> None:
    """Write tensors to a safetensors file, complete or not at all.

    Raises OSError (a full disk, a read-only directory); nothing older is touched then.
    """
    with replacing(file) as scratch:
        try:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, scratch)
        except SafetensorError as error:  # safetensors wraps the system's error
            number = re.search(r"os error (\d+)", str(error))
            known = (int(number[1]), os.strerror(int(number[1])), str(file)) if number else None
            raise OSError(*(known or (f"{file}: {error}",))) from error


def read_tensors(file: Path, device: str = "cpu", advice: str = ANEW) -> Tensors:
    """Tensors of a safetensors file. Raises UserError with ``advice``: it is missing or damaged."""
    with _explained(file, advice):
        check_header(file)
        return load_file(file, device=device)


def check_header(file: Path) -> None:
    """Raise SafetensorError for a file whose header takes too long to read.

    The file begins with the header's size: 8 bytes, the lowest first.
    """
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
    if size > HEADER_BYTES:
        raise SafetensorError(f"a header of {size:,} bytes, the most is {HEADER_BYTES:,}")


def check_fit(file: Path, model: Mapping[str, Tensor], prefix: str = "") -> None:
    """Raise UserError unless a file has just the tensors of ``model`` below ``prefix``.

    Only the file's header is read. With a model on the device `meta`, whose tensors take no memory,
    the check comes before the model is built.
    """
    with _explained(file, ANEW):
        check_header(file)
        with safe_open(file, "pt") as opened:
            shapes = {name: list(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    wanted = {prefix + name: list(tensor.shape) for name, tensor in model.items()}
    for name in [*wanted, *(name for name in shapes if name.startswith(prefix))]:
        there, here = shapes.get(name, "nothing"), wanted.get(name, "nothing")
        if there != here:
            raise UserError(
                f"{file}: the weights do not fit the config: {name} is {there} there and {here} by "
                "the config: overrides may change data, device and precision, not the model"
            )


@contextmanager
def _explained(file: Path, advice: str) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: cannot be read ({error}): {advice}") from error


def below(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """The tensors whose names begin with ``prefix``, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
