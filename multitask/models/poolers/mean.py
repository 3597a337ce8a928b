# Tested by tests/models/poolers/test_poolers.py
"""Mean of the last layer's token vectors (Sentence-BERT, Reimers & Gurevych 2019)."""

from torch import Tensor

from multitask.models.poolers.base import LastLayerPooler, token_mean


class MeanPooler(LastLayerPooler):
    """sum_t m_t h_t / sum_t m_t over the real tokens, [CLS] and [SEP] included."""

    tokens = "all"

    def forward(self, hidden: dict[int, Tensor], mask: Tensor) -> Tensor:
        """hidden[L] [B, T, d], mask [B, T] -> [B, d]."""
        return token_mean(hidden[self.layers[0]], mask)
