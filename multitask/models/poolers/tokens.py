# Tested by tests/models/poolers/test_poolers.py
"""Every token of the last layer, for heads that look at tokens."""

from torch import Tensor

from multitask.models.poolers.base import LastLayerPooler


class TokensPooler(LastLayerPooler):
    """h_L as it is."""

    tokens = "all"

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """hidden[L] [B, T, d], mask [B, T] -> [B, T, d]; what stands at pads has no meaning."""
        return hidden[self.layers[0]]
