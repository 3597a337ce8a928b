# Tested by tests/models/poolers/test_poolers.py
"""Base classes of poolers, and checks that several of them share."""

import torch
from torch import Tensor, nn


class LastLayerPooler(nn.Module):
    """Pools the last hidden state to a vector of its width."""

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.output_dim = dim
        self.layers = (num_layers,)


def check_mask(mask: Tensor) -> None:
    """Raise ValueError if a row of the mask [B, T] has no token.

    A GPU is not checked, as the check would wait for it; ``data.tokenize`` refuses such rows before
    training.
    """
    if mask.device.type == "cpu":
        check_lengths(mask.sum(1))


def check_lengths(lengths: Tensor) -> None:
    """Raise ValueError if one of the lengths [B], on the CPU, is 0.

    There is no check while an exporter traces the code, as it cannot branch on values.
    """
    if not torch.compiler.is_compiling() and not lengths.all():
        raise ValueError("a sequence without tokens")


def token_mean(state: Tensor, mask: Tensor) -> Tensor:
    """sum_t m_t h_t / sum_t m_t over the real tokens: [B, T, d], mask [B, T] -> [B, d].

    bf16 states are summed in fp32. Raises as ``check_mask``.
    """
    check_mask(mask)
    weights = mask.unsqueeze(-1).to(torch.promote_types(state.dtype, torch.float32))
    return (state * weights).sum(1) / weights.sum(1)


class LastLayersPooler(nn.Module):
    """Pools the last k hidden states, [CLS] by [CLS] or token by token.

    Args:
        dim: width d of the encoder.
        num_layers: layers of the encoder.
        last: k, from 1 to the number of layers; the embeddings do not count.

    Raises:
        ValueError: k is out of range.
    """

    def __init__(self, dim: int, num_layers: int, last: int) -> None:
        super().__init__()
        if not 1 <= last <= num_layers:
            message = f"last must be from 1 to the encoder's {num_layers} layers, not {last}"
            raise ValueError(message)
        self.output_dim = dim
        self.layers = tuple(range(num_layers - last + 1, num_layers + 1))

    def taken(self, hidden: dict[int, Tensor]) -> list[Tensor]:
        """Return the last k states, lowest first."""
        return [hidden[layer] for layer in self.layers]


def check_dropout(dropout: float) -> float:
    """Return the rate. Raises ValueError if it is outside [0, 1)."""
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be in [0, 1), not {dropout}")
    return dropout
