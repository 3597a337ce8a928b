"""The modules of one task above the encoder."""

from typing import Any

from torch import Tensor, nn

from multitask.data.collate import Batch


class TaskModule(nn.Module):
    """The modules of a task: pooler -> projection -> dropout -> head.

    Args:
        pooler, projection, head: the modules.
        dropout: the dropout rate in front of the head.
        eval_pooler: replaces pooler and projection in evaluation mode.
    """

    def __init__(
        self,
        pooler: nn.Module,
        projection: nn.Module,
        head: Any,
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
        only_trains = self.eval_pooler is not None or self.head.mlp_only_train
        return nn.Identity() if only_trains else self.projection

    def project(self, pooled: Tensor) -> Tensor:
        """Pooled vectors [S, d] -> projected vectors [S, d'], in the module's current mode."""
        projection = self.projection if self.training else self.scoring_projection
        return projection(pooled)

    def forward(self, pooled: Tensor, batch: Batch) -> Tensor:
        """Pooled vectors of a batch -> the head's ``scores``."""
        return self.head.scores(self.dropout(self.project(pooled)), batch)

    def loss(self, pooled: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Pooled vectors of a batch -> the head's ``loss``: the loss and the scores."""
        return self.head.loss(self.dropout(self.project(pooled)), batch)


class HeadOnSharedPooling(nn.Module):
    """The modules of a task that shares another task's pooler and projection: dropout -> head."""

    def __init__(self, base: TaskModule, head: Any, dropout: float) -> None:
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

    forward, loss = TaskModule.forward, TaskModule.loss
