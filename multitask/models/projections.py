"""Projections, optional layers between pooler and head."""

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    """W x + b.

    Args:
        dim: width of the pooled vector.
        output_dim: width of the result; default: ``dim``.

    Raises:
        ValueError: a width below 1.
    """

    def __init__(self, dim: int, output_dim: int | None = None) -> None:
        super().__init__()
        if output_dim is not None and output_dim < 1:
            raise ValueError(f"output_dim must be at least 1, not {output_dim}")
        self.output_dim = output_dim or dim
        self.dense = nn.Linear(dim, self.output_dim)

    def forward(self, vector: Tensor) -> Tensor:
        """[B, dim] -> [B, output_dim]."""
        return self.dense(vector)


class Tanh(Linear):
    """tanh(W x + b), with new weights."""

    def forward(self, vector: Tensor) -> Tensor:
        """[B, dim] -> [B, output_dim]."""
        return torch.tanh(self.dense(vector))


class Mlp(Tanh):
    """tanh(W x + b) down to the encoder's width, whatever the pooling's (SimCSE's MLP).

    Args:
        dim: width of the pooled vector.
        encoder_dim: width of the result.
    """

    def __init__(self, dim: int, encoder_dim: int) -> None:
        super().__init__(dim, encoder_dim)


class MlpBatchNorm(nn.Module):
    """BN(W_2 relu(BN(W_1 x))), with twice the width inside: DiffCSE's projector.

    The last BN has no weights. Its statistics are those of a batch, so it needs a single process.

    Args:
        dim: width of the pooled vector.
        encoder_dim: width of the result.
    """

    def __init__(self, dim: int, encoder_dim: int) -> None:
        super().__init__()
        self.output_dim = encoder_dim
        self.layers = nn.Sequential(
            nn.Linear(dim, 2 * dim, bias=False),
            nn.BatchNorm1d(2 * dim),
            nn.ReLU(),
            nn.Linear(2 * dim, encoder_dim, bias=False),
            nn.BatchNorm1d(encoder_dim, affine=False),
        )

    def forward(self, vector: Tensor) -> Tensor:
        """[B, dim] -> [B, encoder_dim]."""
        return self.layers(vector)


class BertPooler(Tanh):
    """BERT's tanh pooler with the checkpoint's weights (Devlin et al. 2019).

    Args:
        dim: width of the pooled vector.
        pooler_weights: the checkpoint's (weight [dim, dim], bias [dim]), or None.

    Raises:
        ValueError: the checkpoint has no pooler of this width.
    """

    def __init__(self, dim: int, pooler_weights: tuple[Tensor, Tensor] | None) -> None:
        super().__init__(dim)
        if pooler_weights is None or pooler_weights[0].shape != (dim, dim):
            raise ValueError(f"the encoder has no pooler of width {dim}; use `projection: tanh`")
        with torch.no_grad():
            self.dense.weight.copy_(pooler_weights[0])
            self.dense.bias.copy_(pooler_weights[1])
