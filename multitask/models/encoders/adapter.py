"""What an encoder asks of a task's own part in its layers; the parts themselves are in ``pals``."""

from collections.abc import Callable, Collection
from typing import Protocol

from torch import Tensor

# (query [M, s], key [N, s], value [N, s], *, heads, dropout_rate) -> [M, s], within each sequence
Attend = Callable[..., Tensor]


class Adapter(Protocol):
    """Hooks in a layer, by its number from 1.

    Rows are packed tokens [N, d]. Where a layer computes the first tokens alone, it has M = B rows,
    else M = N.

    Attributes:
        layers: numbers of the layers that call it.
    """

    layers: Collection[int]

    def after_attention(self, layer: int, rows: Tensor) -> Tensor:
        """[M, d], what attention adds to the layer's input -> [M, d]."""

    def after_feed_forward(self, layer: int, rows: Tensor) -> Tensor:
        """[M, d], what the feed-forward part adds -> [M, d]."""

    def beside(
        self, layer: int, hidden: Tensor, first: Tensor | None, attend: Attend
    ) -> Tensor | None:
        """The layer's input [N, d] -> one more term of its second residual sum [M, d], or None.

        ``first`` int64 [B] are the rows of the first tokens where they alone are wanted.
        """
