"""InfoNCE with in-batch negatives: two dropout views, pairs, pairs with a hard negative.

Equations 6 to 8 of the layer-wise attention pooling paper; SimCSE (Gao et al. 2021).
"""

import math
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from heads.base import Head
from multitask.utils import distributed

BLOCK = 64  # rows of a dev set that are compared with each other


class ContrastiveHead(Head):
    """-log softmax of cos(z, z+) / t over the z+ of all rows of the batch, plus hard negatives.

    A candidate is not a negative, and is left out, if its text is one of the row's two texts or if
    its row has the same first text.

    Args:
        dim: width d of a view.
        temperature: t.
        hard_negative_weight: added to the logit of a row's hard negative (`input: triplet`).
        mlp_only_train: use the projection only in training; scores and exported vectors are those
            before it.
        chunk: texts that are encoded at a time, so that memory does not limit the batch: once for
            the loss and once more for the gradient (GradCache, Gao et al. 2021). null: all texts
            at once.
        matryoshka: sizes k: train the first k numbers of a vector for each k, so that a vector can
            be cut to these sizes; null: all numbers together.

    Raises:
        ValueError: a temperature or chunk that is not positive, a size above the vectors'.
    """

    task_type: ClassVar[str] = "views"

    def __init__(
        self,
        dim: int,
        temperature: float = 0.05,
        hard_negative_weight: float = 0.0,
        mlp_only_train: bool = False,
        chunk: int | None = None,
        matryoshka: list[int] | None = None,
    ) -> None:
        super().__init__()
        self.train_sizes(matryoshka, dim)
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, not {temperature}")
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk must be at least 1, not {chunk}")
        self.temperature = temperature
        self.hard_negative_weight = hard_negative_weight
        self.mlp_only_train = mlp_only_train
        self.chunk = chunk

    @classmethod
    def reads(cls, form: Any, vectors: bool) -> bool:
        return vectors and not form.joins and form.sides in (1, 2, 3)

    def forward(self, *views: Tensor) -> Tensor:
        """2 or 3 views [B, d], or one view that counts twice -> [B, V, d]."""
        return torch.stack(views if len(views) > 1 else views * 2, dim=1)

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Views [B, V, d], numbers of their texts [B, 1 or V] -> mean loss of these rows.

        The candidates come from all ranks; gradients go back to a candidate's rank. A row with
        number -1 is not a candidate.
        """
        rows = unit_length(scores)
        everyone = distributed.gather_rows(rows)
        numbers = distributed.gather_rows(labels, fill=-1)
        first = distributed.rank() * (len(everyone) // distributed.world())
        logits, target = self._logits(rows, labels, everyone, candidate_labels=numbers, first=first)
        return functional.cross_entropy(logits, target)

    def outcomes(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Views [N, V, d] in file order, numbers [N, 1 or V] -> outcomes of the rows [N, 2].

        An outcome is 1 if the second view is nearer to the first than every other candidate, else
        0, and the softmax probability of the second view. Candidates are those of about 64 rows in
        file order.
        """
        outcomes = []
        count = -(-len(scores) // BLOCK)
        for block, numbers in zip(
            scores.tensor_split(count), labels.tensor_split(count), strict=True
        ):
            views = unit_length(block)
            logits, target = self._logits(views, numbers, views, candidate_labels=numbers, first=0)
            right = logits.gather(1, target[:, None])
            others = logits.scatter(1, target[:, None], float("-inf"))
            nearest = right[:, 0] > others.amax(1)
            chance = logits.softmax(1).gather(1, target[:, None])[:, 0]
            outcomes.append(torch.stack([nearest.to(chance.dtype), chance], dim=1))
        return torch.cat(outcomes)

    def results(self, output: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor, float]:
        """Views [N, V, d] -> 1 if the right one is nearest, else 0 [N]; its probability [N, 1]; the
        mean of -log of that."""
        assert labels is not None, "the rows need the numbers of their texts"
        right, chance = self.outcomes(output, labels).double().cpu().T
        least = np.finfo(np.float32).tiny
        loss = float(-np.log(np.maximum(chance.numpy(), least)).mean())
        return right.long(), chance.unsqueeze(1), loss

    def trivial_loss(self, labels: Tensor, num_labels: int, batch_size: int) -> float:
        """Return the loss of guessing in training: log B, or log 2B with hard negatives."""
        return self.terms * math.log(batch_size * max(1, labels.shape[1] - 1))

    def chance(self, labels: Tensor) -> float:
        """Return the mean probability of a right guess among each row's candidates; CPU tensors."""
        equal = torch.ones(len(labels), 3 if labels.shape[1] == 3 else 2, 1)
        return float(self.outcomes(equal, labels)[:, 1].mean())

    def _logits(
        self,
        views: Tensor,
        labels: Tensor,
        candidates: Tensor,
        *,
        candidate_labels: Tensor,
        first: int,
    ) -> tuple[Tensor, Tensor]:
        """Compare B rows with C rows of candidates, of which they are number ``first`` and on.

        Returns each row's logits [B, (V - 1) C] and the place of the right candidate [B].
        """
        target = torch.arange(first, first + len(views), device=views.device)
        with torch.autocast(views.device.type, enabled=False):
            others = candidates[:, 1:].transpose(0, 1).flatten(0, 1)
            logits = views[:, 0] @ others.T / self.temperature
        if views.shape[1] == 3 and self.hard_negative_weight:
            weights = torch.zeros_like(logits)
            weights.scatter_(1, target[:, None] + len(candidates), self.hard_negative_weight)
            logits = logits + weights
        left_out = no_negatives(labels, candidate_labels, views.shape[1])
        left_out.scatter_(1, target[:, None], False)
        return logits.masked_fill(left_out, float("-inf")), target


def unit_length(views: Tensor) -> Tensor:
    """Scale views [B, V, d] to length 1, at least in fp32."""
    return functional.normalize(at_least_fp32(views), dim=-1)


def at_least_fp32(x: Tensor) -> Tensor:
    """Convert bf16 to fp32, as cosines at temperature .05 need the digits."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def no_negatives(numbers: Tensor, everyone: Tensor, views: int) -> Tensor:
    """Mark the candidates that are not negatives, the row's right one included.

    Numbers of the rows' texts [B, 1 or V] and of the candidates' [C, 1 or V] -> bool
    [B, (V - 1) C].
    """
    first, right = numbers[:, 0, None], numbers[:, min(1, numbers.shape[1] - 1), None]
    anchors = everyone[:, 0]
    left_out = []
    for view in range(1, views):
        texts = everyone[:, min(view, everyone.shape[1] - 1)]
        no_negative = (texts == first) | (texts == right) | (texts < 0)
        left_out.append(no_negative | (anchors == first) if view == 1 else no_negative)
    return torch.cat(left_out, dim=1)
