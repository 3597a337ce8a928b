"""What the poolers of a single hidden state share."""

from torch import nn


class LastLayerPooler(nn.Module):
    """Pools the last hidden state alone to one vector of its width."""

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.output_dim = dim
        self.layers = (num_layers,)
