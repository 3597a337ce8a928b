# Tested by tests/pals/test_adapters.py
"""The places of a layer where an adapter may act, and the bottleneck that two of them are made of.

With h the layer's input:

    a  = LN(h + after_attention(drop(attention(h))))
    h' = LN(a + after_feed_forward(drop(feed_forward(a))) + beside(h))
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import gelu

# (query [M, s], key [N, s], value [N, s], *, heads, dropout_rate) -> [M, s], within each sequence
Attend = Callable[..., Tensor]


class Adapter(nn.Module):
    """Hooks that change nothing; an adapter overrides those it uses.

    The hooks are given the layer's number, from 1. A layer that computes the first tokens alone
    has M = B rows, one a sequence; any other has M = N.

    Args:
        num_layers: layers of the encoder.
        layers: numbers of the layers it acts in, from 1; None for all.

    Raises:
        ValueError: numbers that are no layers, or come twice.
    """

    def __init__(self, num_layers: int, layers: list[int] | None) -> None:
        super().__init__()
        known = range(1, num_layers + 1)
        self.layers = tuple(known) if layers is None else tuple(sorted(layers))
        if not self.layers or len({*self.layers} & {*known}) < len(self.layers):
            message = f"layers must be different numbers from 1 to {num_layers}, not {layers}"
            raise ValueError(message)

    def after_attention(self, layer: int, rows: Tensor) -> Tensor:
        """What attention adds to the layer's input [M, d] -> the same, changed."""
        return rows

    def after_feed_forward(self, layer: int, rows: Tensor) -> Tensor:
        """What the feed-forward part adds [M, d] -> the same, changed."""
        return rows

    def beside(
        self, layer: int, hidden: Tensor, first: Tensor | None, attend: Attend
    ) -> Tensor | None:
        """One more term of the second residual sum [M, d]; None for none.

        Args:
            layer: its number.
            hidden: the layer's input [N, d].
            first: int64 [B], the rows of the first tokens where they alone are wanted, else None.
            attend: the encoder's attention over this batch.
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
    """A bottleneck's width. Raises ValueError below 1."""
    if size < 1:
        raise ValueError(f"size must be at least 1, not {size}")
    return size


def normal(linear: nn.Linear) -> None:
    """BERT's initial values: weights normal with standard deviation .02, biases 0."""
    nn.init.normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)


def zero(linear: nn.Linear) -> None:
    """Weights and biases 0, so that what ends in ``linear`` adds nothing at first."""
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
