# Tested by tests/models/poolers/test_attending.py
"""MaxPoolBERT proper: max over the last layers, token by token, then attention from [CLS]."""

from functools import reduce

import torch
from torch import Tensor

from multitask.models.poolers.attending import AttendingPooler


class MaxSeqMHAPooler(AttendingPooler):
    """MHA(P[:, 0], P, P) with P = max_i h_i over the last k layers, token by token."""

    def over_layers(self, states: list[Tensor]) -> Tensor:
        """k states [B, T, d] -> their element-wise maximum [B, T, d]."""
        return reduce(torch.maximum, states)
