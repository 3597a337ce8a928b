"""What one task owns above the encoder."""

from typing import Any

from torch import Tensor, nn


class TaskModule(nn.Module):
    """What one task owns above the encoder: pooler -> projection -> dropout -> head.

    ``sides`` are the texts whose vectors the head compares, 2 or 3, else 1; in evaluation mode
    ``eval_sides``, as without dropout two views of one text are equal. A head that takes tokens
    gets the vectors [M, d] of those it is to predict, instead of one a sequence; one that takes a
    sequence gets all of them [B, T, d], and their mask. ``eval_pooler``
    stands in for pooler and projection in evaluation mode, if there is one.
    """

    def __init__(
        self,
        pooler: nn.Module,
        projection: nn.Module,
        head: nn.Module,
        dropout: float,
        sides: int,
        eval_pooler: nn.Module | None = None,
        eval_sides: int | None = None,
    ) -> None:
        super().__init__()
        self.pooler = pooler
        self.eval_pooler = eval_pooler
        self.projection = projection
        self.dropout = nn.Dropout(dropout)
        self.head = head
        self.sides, self.eval_sides = sides, eval_sides or sides

    @property
    def pooler_in_use(self) -> Any:
        """The pooler of the mode that the module is in."""
        return self.pooler if self.training else self.scoring_pooler

    @property
    def scoring_pooler(self) -> Any:
        """The pooler of evaluation mode."""
        return self.pooler if self.eval_pooler is None else self.eval_pooler

    @property
    def scoring_projection(self) -> nn.Module:
        """The projection of evaluation mode; nothing where it only trains."""
        only_trains = self.eval_pooler is not None or getattr(self.head, "mlp_only_train", False)
        return nn.Identity() if only_trains else self.projection

    def project(self, pooled: Tensor) -> Tensor:
        """Pooled vectors [S, d] -> [S, d'], as they are where the projection only trains."""
        projection: nn.Module = self.projection if self.training else self.scoring_projection
        found: Tensor = projection(pooled)
        return found

    def forward(self, pooled: Tensor, mask: Tensor | None = None) -> Tensor:
        """Pooled vectors [sides * B, d] -> the head's scores; ``mask`` [B, T] of a sequence."""
        sides = self.sides if self.training else self.eval_sides
        vectors = self.dropout(self.project(pooled)).chunk(sides)
        return self.head(*vectors) if mask is None else self.head(*vectors, mask)


class HeadOfItsOwn(nn.Module):
    """What a task owns that shares another task's pooler and projection: dropout -> head."""

    def __init__(
        self, base: TaskModule, head: nn.Module, dropout: float, sides: int, eval_sides: int
    ) -> None:
        super().__init__()
        self._base = (base,)  # in a tuple: no submodule, so its weights have one owner
        self.dropout = nn.Dropout(dropout)
        self.head = head
        self.sides, self.eval_sides = sides, eval_sides

    @property
    def pooler(self) -> nn.Module:
        """The other task's."""
        return self._base[0].pooler

    @property
    def pooler_in_use(self) -> Any:
        """The other task's."""
        return self._base[0].pooler_in_use

    @property
    def scoring_pooler(self) -> Any:
        """The other task's."""
        return self._base[0].scoring_pooler

    def project(self, pooled: Tensor) -> Tensor:
        """As the other task does."""
        return self._base[0].project(pooled)

    def forward(self, pooled: Tensor) -> Tensor:
        """Pooled vectors [sides * B, d] -> the head's scores."""
        sides = self.sides if self.training else self.eval_sides
        return self.head(*self.dropout(self.project(pooled)).chunk(sides))
