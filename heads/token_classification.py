"""Tag every word, as in named entity recognition (Devlin et al. 2019, section 5.3)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from heads.base import Head, class_frequencies


class TokenClassificationHead(Head):
    """Linear(d, C) on the first word piece of each word, with softmax cross-entropy.

    Args:
        dim: width d of a token's vector.
        num_labels: tags C.
    """

    task_type: ClassVar[str] = "tags"

    def __init__(self, dim: int, num_labels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, num_labels)

    @classmethod
    def reads(cls, form: Any, vectors: bool) -> bool:
        return not vectors and form.texts == 1

    def forward(self, tokens: Tensor) -> Tensor:
        """Vectors of the first word pieces [M, d] -> logits [M, C]."""
        return self.linear(tokens)

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [M, C], tag ids [M] -> mean cross-entropy over words."""
        return functional.cross_entropy(scores, labels)

    def outcomes(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [M, C], tag ids [M] -> [M, 3]: best tag, its probability, loss of the label."""
        best, tags = scores.softmax(-1).max(-1)
        losses = functional.cross_entropy(scores, labels, reduction="none")
        return torch.stack([tags.to(scores.dtype), best, losses], 1)

    def row_values(self, scores: Tensor, batch: Any, longest: int) -> Tensor:
        """Return ``outcomes`` per row, for words with a piece: [B, longest, 3], then zeros."""
        rows = batch.row_of_place
        counts = torch.bincount(rows, minlength=batch.rows)
        number = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
        outcomes = scores.new_zeros(batch.rows, longest, 3)
        outcomes[rows, number] = self.outcomes(scores, batch.labels)
        return outcomes

    def trivial_scores(self, labels: Tensor, num_labels: int) -> Tensor:
        """Return the log frequencies of the tags."""
        return class_frequencies(labels, num_labels)

    def trivial_loss(self, labels: Tensor, num_labels: int, batch_size: int) -> float:
        """Return the loss over all words; ``labels`` [N, longest] are -1 after the last word."""
        return super().trivial_loss(labels[labels >= 0], num_labels, batch_size)
