# Tested by tests/models/poolers/test_hire.py
"""HIRE's fusion network (section 3.3)."""

import torch
from torch import Tensor, nn

from multitask.models.poolers.gru import first_outputs, pack


class FusionNetwork(nn.Module):
    """The first token of F = BiGRU(M), with M = [R; A; R + A; R * A].

    Args:
        dim: width d of R and A.
        layers: number of layers of the BiGRU; 0 returns the first token of M.
        dropout: dropout rate between these layers.
    """

    def __init__(self, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.output_dim = 2 * dim if layers else 4 * dim
        self.gru = None
        if layers:
            rate = dropout if layers > 1 else 0.0
            self.gru = nn.GRU(
                4 * dim, dim, layers, batch_first=True, bidirectional=True, dropout=rate
            )

    def forward(self, last: Tensor, mixed: Tensor, mask: Tensor) -> Tensor:
        """R, A [B, T, d], mask [B, T] -> [B, 2 d]; without layers [B, 4 d] from T >= 1."""
        if self.gru is None:
            return features(last[:, 0], mixed[:, 0])
        packed = pack(torch.cat([last, mixed], dim=-1), mask.sum(1).cpu())
        joint = packed._replace(data=features(*packed.data.chunk(2, dim=-1)))
        return first_outputs(self.gru, joint)


def features(last: Tensor, mixed: Tensor) -> Tensor:
    """M = [R; A; R + A; R * A]: [..., d] twice -> [..., 4 d]."""
    return torch.cat([last, mixed, last + mixed, last * mixed], dim=-1)
