# Tested by tests/models/poolers/test_poolers.py
"""Max over time of the last layer's token vectors (Sentence-BERT, Reimers & Gurevych 2019)."""

from torch import Tensor

from multitask.models.poolers.base import LastLayerPooler, check_mask


class MaxPooler(LastLayerPooler):
    """max_t h_t per dimension over the real tokens, [CLS] and [SEP] included."""

    tokens = "all"

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """hidden[L] [B, T, d], mask [B, T] -> [B, d]."""
        check_mask(mask)
        pads = mask.unsqueeze(-1) == 0
        return hidden[self.layers[0]].masked_fill(pads, float("-inf")).amax(1)
