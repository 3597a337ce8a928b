"""The interface between an encoder and a task's adapter; the adapters are in ``pals``."""

from collections.abc import Callable, Collection
from typing import Protocol

from torch import Tensor

# attention within each sequence: (query, key and value [N, 3 s], *, heads, dropout_rate) -> [N, s],
# or (key and value [N, 2 s], *, heads, dropout_rate, query [B, s]) -> [B, s]
Attend = Callable[..., Tensor]


class Adapter(Protocol):
    """Hooks that an encoder layer calls; ``layer`` is its number, from 1.

    Rows are packed tokens [N, d]. A layer that computes only the first tokens has M = B rows, else
    M = N.

    Attributes:
        layers: numbers of the layers that call the adapter.
    """

    layers: Collection[int]

    def after_attention(self, layer: int, rows: Tensor) -> Tensor:
        """Change what attention adds to the layer's input: [M, d] -> [M, d]."""

    def after_feed_forward(self, layer: int, rows: Tensor) -> Tensor:
        """Change what the feed-forward part adds: [M, d] -> [M, d]."""

    def beside(
        self, layer: int, hidden: Tensor, first: Tensor | None, attend: Attend
    ) -> Tensor | None:
        """Return one more term of the layer's second residual sum [M, d], or None.

        Args:
            layer: the layer's number.
            hidden: the layer's input [N, d].
            first: int64 [B], the rows of the first tokens if only these are computed, else None.
            attend: attention within each sequence.
        """
