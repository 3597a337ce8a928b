# Tested by tests/models/poolers/test_attending.py
"""MaxPoolBERT's variant with a mean over the last layers, then attention from [CLS]."""

import torch
from torch import Tensor

from multitask.models.poolers.attending import AttendingPooler


class MeanSeqMHAPooler(AttendingPooler):
    """MHA(P[:, 0], P, P) with P = mean_i h_i over the last k layers, token by token."""

    def over_layers(self, states: list[Tensor]) -> Tensor:
        """k states [B, T, d] -> their mean [B, T, d]."""
        return torch.stack(states).mean(0)
