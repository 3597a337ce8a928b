# Tested by tests/pals/test_adapters.py
"""Adapters inside each layer (Houlsby et al. 2019, section 2.1)."""

from torch import Tensor, nn

from pals.base import Adapter, Bottleneck, check_size


class Houlsby(Adapter):
    """x + up(gelu(down x)) on the output of attention and on that of the feed-forward part.

    Both come after the dropout and before the residual sum and its LayerNorm. As in the authors'
    code, weights are initially normal with standard deviation .001, truncated at twice that, and
    biases 0: nearly the identity. Unlike the authors, we share the LayerNorms between tasks.

    Parameters: 2 L (2 d s + s + d).

    Args:
        dim: width d of the encoder.
        num_layers: layers of the encoder.
        size: width s of the bottlenecks.
        layers: the layers that have the adapter, numbered from 1; null for all.
    """

    def __init__(
        self, dim: int, num_layers: int, size: int = 50, layers: list[int] | None = None
    ) -> None:
        super().__init__(num_layers, layers)
        check_size(size)
        self.attention = nn.ModuleDict({str(n): Bottleneck(dim, size) for n in self.layers})
        self.feed_forward = nn.ModuleDict({str(n): Bottleneck(dim, size) for n in self.layers})
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=1e-3, a=-2e-3, b=2e-3)
                nn.init.zeros_(module.bias)

    def after_attention(self, layer: int, rows: Tensor) -> Tensor:
        """[M, d] -> [M, d]."""
        return rows + self.attention[str(layer)](rows)

    def after_feed_forward(self, layer: int, rows: Tensor) -> Tensor:
        """[M, d] -> [M, d]."""
        return rows + self.feed_forward[str(layer)](rows)
