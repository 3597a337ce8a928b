# Tested by tests/models/poolers/test_attending.py
"""[CLS] attends once more to the last layer (MaxPoolBERT, section 3.3)."""

from torch import Tensor

from multitask.models.poolers.attending import AttendingPooler


class MHAPooler(AttendingPooler):
    """MHA(h_L[:, 0], h_L, h_L): one more attention layer, for [CLS] alone."""

    def __init__(
        self,
        dim: int,
        num_layers: int,
        heads: int = 4,
        dropout: float = 0.0,
        residual: bool = False,
        norm: bool = False,
    ) -> None:
        super().__init__(dim, num_layers, 1, heads, dropout, residual, norm)

    def over_layers(self, states: list[Tensor]) -> Tensor:
        """Return the last state unchanged."""
        return states[0]
