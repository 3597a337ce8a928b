# Tested by tests/pals/test_adapters.py
"""Low-rank layers parallel to BERT's (Stickland & Murray 2019, section 3.2, no attention)."""

from torch import Tensor, nn

from pals.base import Adapter, Attend, Bottleneck, check_size, normal, zero


class LowRank(Adapter):
    """up(gelu(down h)) per token, parallel to each layer, with separate matrices per layer.

    ``up`` is initially 0, so the encoder is unchanged at the start.

    Parameters: L (2 d s + s + d).

    Args:
        dim: width d of the encoder.
        num_layers: layers of the encoder.
        size: width s; 100 in the paper.
        layers: the layers that have the adapter, numbered from 1; null for all.
    """

    def __init__(
        self, dim: int, num_layers: int, size: int = 100, layers: list[int] | None = None
    ) -> None:
        super().__init__(num_layers, layers)
        check_size(size)
        self.bottlenecks = nn.ModuleDict({str(n): Bottleneck(dim, size) for n in self.layers})
        for module in self.modules():
            if isinstance(module, Bottleneck):
                normal(module.down)
                zero(module.up)

    def beside(self, layer: int, hidden: Tensor, first: Tensor | None, attend: Attend) -> Tensor:
        """[N, d] -> [M, d]."""
        return self.bottlenecks[str(layer)](
            hidden if first is None else hidden.index_select(0, first)
        )
