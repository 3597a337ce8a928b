# Tested by tests/models/poolers/test_poolers.py
"""The last layer's [CLS] vector (Devlin et al. 2019)."""

from torch import Tensor

from multitask.models.poolers.base import LastLayerPooler


class CLSPooler(LastLayerPooler):
    """h_L[:, 0]: the first token's last hidden state."""

    tokens = "first"

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """hidden[L] [B, >=1, d], mask [B, T] -> [B, d]."""
        return hidden[self.layers[0]][:, 0]
