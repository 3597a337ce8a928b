"""The modules of one task above the encoder."""

from typing import Any

from torch import Tensor, nn


class TaskModule(nn.Module):
    """The modules of a task: pooler -> projection -> dropout -> head.

    A head that takes tokens gets the vectors [M, d] of the tokens to predict; one that takes a
    sequence gets the vectors of all tokens [B, T, d] and their mask; other heads get one vector per
    text.

    Args:
        pooler, projection, head: the modules.
        dropout: the dropout rate in front of the head.
        eval_pooler: replaces pooler and projection in evaluation mode.
    """

    def __init__(
        self,
        pooler: nn.Module,
        projection: nn.Module,
        head: nn.Module,
        dropout: float,
        eval_pooler: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.pooler = pooler
        self.eval_pooler = eval_pooler
        self.projection = projection
        self.dropout = nn.Dropout(dropout)
        self.head = head

    @property
    def pooler_in_use(self) -> Any:
        """The pooler of the module's current mode."""
        return self.pooler if self.training else self.scoring_pooler

    @property
    def scoring_pooler(self) -> Any:
        """The pooler of evaluation mode."""
        return self.pooler if self.eval_pooler is None else self.eval_pooler

    @property
    def scoring_projection(self) -> nn.Module:
        """The projection of evaluation mode: an identity if the projection is for training only."""
        only_trains = self.eval_pooler is not None or getattr(self.head, "mlp_only_train", False)
        return nn.Identity() if only_trains else self.projection

    def project(self, pooled: Tensor) -> Tensor:
        """Pooled vectors [S, d] -> projected vectors [S, d'], in the module's current mode."""
        projection = self.projection if self.training else self.scoring_projection
        return projection(pooled)

    def forward(self, pooled: Tensor, sides: int, mask: Tensor | None = None) -> Tensor:
        """Pooled vectors [sides * B, d] -> the head's scores; ``mask`` [B, T] of a sequence."""
        vectors = self.dropout(self.project(pooled)).chunk(sides)
        return self.head(*vectors) if mask is None else self.head(*vectors, mask)


class HeadOnSharedPooling(nn.Module):
    """The modules of a task that shares another task's pooler and projection: dropout -> head."""

    def __init__(self, base: TaskModule, head: nn.Module, dropout: float) -> None:
        super().__init__()
        self._base = (base,)  # in a tuple, so that it is not a submodule and weights have one owner
        self.dropout = nn.Dropout(dropout)
        self.head = head

    # those of the other task
    pooler = property(lambda module: module._base[0].pooler)
    pooler_in_use = property(lambda module: module._base[0].pooler_in_use)
    scoring_pooler = property(lambda module: module._base[0].scoring_pooler)

    def project(self, pooled: Tensor) -> Tensor:
        """Project as the other task does."""
        return self._base[0].project(pooled)

    def forward(self, pooled: Tensor, sides: int) -> Tensor:
        """Pooled vectors [sides * B, d] -> the head's scores."""
        return self.head(*self.dropout(self.project(pooled)).chunk(sides))
