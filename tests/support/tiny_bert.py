"""Tiny checkpoints with random weights, and ragged batches for them."""

from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from torch import Tensor

from tests.conftest import save_tiny_encoder


def random_checkpoint(directory: Path, kind: str, scale: float = 0.3, **changes: object) -> Path:
    """A tiny checkpoint whose every weight is random, LayerNorms and biases too."""
    save_tiny_encoder(directory, kind, **changes)
    model = transformers.AutoModel.from_pretrained(directory)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(directory)
    return directory


def ragged(
    lengths: Sequence[int], left: bool = False, vocabulary: int = 50
) -> tuple[Tensor, Tensor, Tensor]:
    """ids, types, mask [B, T] of ragged sequences; ``left``: the pads stand in front."""
    generator = torch.Generator().manual_seed(1)
    places = torch.arange(max(lengths))[None]
    size = torch.tensor(lengths)[:, None]
    mask = (places >= max(lengths) - size).long() if left else (places < size).long()
    ids = torch.randint(5, vocabulary, mask.shape, generator=generator) * mask
    return ids, (mask.cumsum(1) > 3) * mask, mask


def save_tiny_mlm(directory: Path, kind: str = "bert") -> Path:
    """A tiny random masked language model with the tiny encoder's vocabulary."""
    save_tiny_encoder(directory, kind)
    config = transformers.AutoConfig.from_pretrained(directory)
    torch.manual_seed(5)
    transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(directory)
    return directory
