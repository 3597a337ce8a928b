# Tested by tests/models/poolers/test_poolers.py
"""All tokens of the last layer, for heads that read tokens."""

from torch import Tensor

from multitask.models.poolers.base import LastLayerPooler


class TokensPooler(LastLayerPooler):
    """h_L unchanged."""

    tokens = "all"

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """hidden[L] [B, T, d], mask [B, T] -> [B, T, d]; values at pads have no meaning."""
        return hidden[self.layers[0]]
