"""The last layer's [CLS] vector (Devlin et al. 2019)."""

from torch import Tensor, nn


class CLSPooler(nn.Module):
    """h_L[:, 0]: the first token's last hidden state."""

    tokens = "first"

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.output_dim = dim
        self.layers = (num_layers,)

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """hidden[L] [B, >=1, d], mask [B, T] -> [B, d]."""
        return hidden[self.layers[0]][:, 0]
