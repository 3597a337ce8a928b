# Tested by tests/pals/test_adapters.py
"""The base class of adapters, with the places where they act, and the bottleneck of two of them.

With h the layer's input:

    a  = LN(h + after_attention(drop(attention(h))))
    h' = LN(a + after_feed_forward(drop(feed_forward(a))) + beside(h))
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import gelu

# attention within each sequence: (query, key and value [N, 3 s], *, heads, dropout_rate) -> [N, s],
# or (key and value [N, 2 s], *, heads, dropout_rate, query [B, s]) -> [B, s]
Attend = Callable[..., Tensor]


class Adapter(nn.Module):
    """Hooks that change nothing; a subclass overrides the hooks it uses.

    ``in_maps``: it acts by ``term`` alone, so it also works in an encoder of `transformers`; its
    ``merged`` puts it into the weights of the maps.

    Each hook gets the number of the layer, from 1. A layer that computes only the first tokens has
    M = B rows, one per sequence. Any other layer has M = N.

    Args:
        num_layers: layers of the encoder.
        layers: the layers that have the adapter, numbered from 1; None for all.

    Raises:
        ValueError: a number is not a layer, or is given twice.
    """

    in_maps = False

    def __init__(self, num_layers: int, layers: list[int] | None) -> None:
        super().__init__()
        numbers = range(1, num_layers + 1)
        self.layers = tuple(numbers) if layers is None else tuple(sorted(layers))
        if not self.layers or len({*self.layers} & {*numbers}) < len(self.layers):
            message = f"layers must be different numbers from 1 to {num_layers}, not {layers}"
            raise ValueError(message)

    def term(self, layer: int, name: str, rows: Tensor) -> Tensor | None:
        """Return a term for the output of a linear map, or None.

        Args:
            layer: number of the layer.
            name: the map's name in the encoder's ``linear_maps``.
            rows: its input [M, i]; in an encoder of `transformers` [B, T, i].
        """
        return None

    def after_attention(self, layer: int, rows: Tensor) -> Tensor:
        """Change the output of attention [M, d], before the residual sum."""
        return rows

    def after_feed_forward(self, layer: int, rows: Tensor) -> Tensor:
        """Change the output of the feed-forward part [M, d], before the residual sum."""
        return rows

    def beside(
        self, layer: int, hidden: Tensor, first: Tensor | None, attend: Attend
    ) -> Tensor | None:
        """Return one more term for the second residual sum [M, d], or None.

        Args:
            layer: number of the layer.
            hidden: the layer's input [N, d].
            first: int64 [B], the rows of the first tokens, if only these are computed; else None.
            attend: the attention of the encoder over this batch.
        """
        return None


class Bottleneck(nn.Module):
    """up(gelu(down(x))), with biases: [M, d] -> [M, s] -> [M, d]."""

    def __init__(self, dim: int, size: int) -> None:
        super().__init__()
        self.down = nn.Linear(dim, size)
        self.up = nn.Linear(size, dim)

    def forward(self, rows: Tensor) -> Tensor:
        """[M, d] -> [M, d]."""
        return self.up(gelu(self.down(rows)))


def check_size(size: int) -> int:
    """Return the width of a bottleneck. Raises ValueError if it is below 1."""
    if size < 1:
        raise ValueError(f"size must be at least 1, not {size}")
    return size


def normal(linear: nn.Linear) -> None:
    """Initialise as BERT does: weights normal with standard deviation .02, biases 0."""
    nn.init.normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)


def zero(linear: nn.Linear) -> None:
    """Set weights and biases to 0, so that a module with this last layer adds nothing at first."""
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
