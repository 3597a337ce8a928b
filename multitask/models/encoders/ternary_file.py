"""Save a quantised encoder with 2 bits per ternary weight, and load it bit for bit.

The directory has config.json and ternary.safetensors. A quantised layer has three tensors there:

- ``packed``: uint8, four weights per byte, the first in the lowest bits; -1, 0 and 1 are 0, 1 and 2
- ``scales``: one per matrix
- ``bias``

The other parameters (embeddings, LayerNorms, layers that are not quantised) are stored in fp32. The
fp32 master weights are not stored, so the encoder cannot be trained further.
"""

import math
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from multitask.models.encoders.bert import BertEncoder
from multitask.models.encoders.bert_weights import encoder_from_config
from multitask.models.encoders.bitlinear import bit_layers, eight_bit, rescaled, ternarise
from multitask.models.linear import linear
from multitask.models.weights import read_tensors
from multitask.utils.errors import UserError, reason_of

FILE = "ternary.safetensors"


class Size(NamedTuple):
    """Sizes in bytes.

    Attributes:
        file: the written file.
        fp32: the encoder's parameters in fp32.
    """

    file: int
    fp32: int


class TernaryLinear(nn.Module):
    """Computes from packed weights what a BitLinear computes in evaluation.

    Args:
        in_features, out_features: as in ``nn.Linear``.
        parts: the number of stacked matrices, each with a scale.
    """

    packed: Tensor
    scales: Tensor
    bias: Tensor

    def __init__(self, in_features: int, out_features: int, parts: int) -> None:
        super().__init__()
        self.shape = (out_features, in_features)
        count = math.ceil(out_features * in_features / 4)
        self.register_buffer("packed", torch.zeros(count, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(parts))
        self.register_buffer("bias", torch.zeros(out_features))

    def forward(self, hidden: Tensor, rows: slice | None = None) -> Tensor:
        """[..., in] -> [..., out], or the outputs ``rows`` of them."""
        weight = rescaled(unpack(self.packed, self.shape).to(self.scales.dtype), self.scales)
        return linear(eight_bit(hidden), weight, self.bias, rows)


def pack(ternary: Tensor) -> Tensor:
    """Pack -1, 0 and 1 of any shape into uint8 [ceil(count / 4)]."""
    codes = (ternary.flatten() + 1).to(torch.uint8)
    codes = nn.functional.pad(codes, (0, -len(codes) % 4)).view(-1, 4)
    return (codes << _shifts(codes)).sum(1, dtype=torch.uint8)


def unpack(packed: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Undo ``pack``: int8 -1, 0 and 1 of ``shape``."""
    codes = (packed[:, None] >> _shifts(packed)) & 3
    return codes.flatten()[: math.prod(shape)].view(shape).to(torch.int8) - 1


def _shifts(like: Tensor) -> Tensor:
    return torch.tensor([0, 2, 4, 6], dtype=torch.uint8, device=like.device)


def save_ternary(encoder: BertEncoder, directory: Path) -> Size:
    """Write a quantised encoder that came from a checkpoint's config; ``directory`` exists.

    Raises UserError: no layer of it is quantised.
    """
    layers = bit_layers(encoder)
    if not layers:
        raise UserError("no layer is ternary: train with `encoder.bitlinear: {}`")
    tensors = {name: tensor.detach().cpu() for name, tensor in encoder.state_dict().items()}
    for name, layer in layers.items():
        ternary, scales = ternarise(tensors.pop(f"{name}.weight"), layer.parts)
        tensors |= {f"{name}.packed": pack(ternary), f"{name}.scales": scales}
    encoder.config.save_pretrained(directory)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, directory / FILE)
    plain = sum(parameter.numel() * 4 for parameter in encoder.parameters())
    return Size((directory / FILE).stat().st_size, plain)


def load_ternary(directory: Path) -> BertEncoder:
    """Load what ``save_ternary`` wrote, in evaluation mode: the same states to the last bit.

    Raises UserError: a file that is missing or damaged, or that does not fit config.json.
    """
    try:
        tensors = read_tensors(directory / FILE)
        encoder = encoder_from_config(str(directory))
        for name, module in list(encoder.named_modules()):
            if f"{name}.packed" in tensors and isinstance(module, nn.Linear):
                parts = getattr(module, "parts", 1)
                packed = TernaryLinear(module.in_features, module.out_features, parts)
                encoder.set_submodule(name, packed)
        encoder.load_state_dict(tensors)
    except (OSError, ValueError, RuntimeError, UserError) as error:
        message = f"cannot be loaded ({reason_of(error, 200)}): export it again"
        raise UserError(f"{directory}: {message}") from error
    return encoder.eval()
