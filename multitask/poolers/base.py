"""What several poolers share."""

import torch
from torch import Tensor, nn


class LastLayerPooler(nn.Module):
    """Pools the last hidden state alone to one vector of its width."""

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.output_dim = dim
        self.layers = (num_layers,)


def token_mean(state: Tensor, mask: Tensor) -> Tensor:
    """sum_t m_t h_t / sum_t m_t over the real tokens: [B, T, d], mask [B, T] -> [B, d].

    bf16 states are summed in fp32.
    """
    weights = mask.unsqueeze(-1).to(torch.promote_types(state.dtype, torch.float32))
    return (state * weights).sum(1) / weights.sum(1)
