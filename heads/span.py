"""Find an answer in a text (Devlin et al. 2019, sections 4.2 and 4.3: SQuAD v1.1 and v2.0)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from heads.base import Head


class SpanHead(Head):
    """A start and an end logit per token, Linear(d, 2), each with softmax cross-entropy.

    As in the paper's code, the softmax is over all tokens of the input except padding, also those
    of the question and special tokens. The predicted span is always inside the context.

    With ``no_answer`` a question may have no answer. Its label is the first token, [CLS]. No answer
    is predicted if start + end logit of this token, minus those of the best span, are above a
    threshold. It is saved with the weights: the one with the highest F1 on ``training.holdout``, or
    0 without a holdout.

    Args:
        dim: width d of a token's vector.
        max_answer_tokens: length of the longest predicted span, in tokens.
        no_answer: True if a question may have no answer, as in SQuAD v2.0. The rows of
            `training.holdout` choose the threshold above which none is given.

    Raises:
        ValueError: ``max_answer_tokens`` is below 1.
    """

    task_type: ClassVar[str] = "span"
    from_config: ClassVar[tuple[str, ...]] = ("null_threshold",)
    null_threshold: Tensor | None

    def __init__(self, dim: int, max_answer_tokens: int = 30, no_answer: bool = False) -> None:
        super().__init__()
        if max_answer_tokens < 1:
            raise ValueError(f"max_answer_tokens must be at least 1, not {max_answer_tokens}")
        self.max_answer_tokens = max_answer_tokens
        self.linear = nn.Linear(dim, 2)
        self.register_buffer("null_threshold", torch.zeros(()) if no_answer else None)

    @property
    def threshold(self) -> Tensor | None:
        return self.null_threshold

    @classmethod
    def reads(cls, form: Any, vectors: bool) -> bool:
        return not vectors and form.joins and (form.sides, form.texts) == (1, 2)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Vectors [B, T, d], mask [B, T] -> start and end logits [B, T, 2], -inf at padding."""
        return self.linear(tokens).masked_fill(mask.unsqueeze(-1) == 0, -torch.inf)

    def scores(self, pooled: Tensor, batch: Any) -> Tensor:
        """Vectors of all tokens [B, T, d] -> logits [B, T, 2]."""
        return self(pooled, batch.attention_mask)

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [B, T, 2], places of the first and last token [B, 2] -> mean cross-entropy."""
        return functional.cross_entropy(scores, labels)

    def outcomes(self, scores: Tensor, labels: Tensor, context: Tensor) -> Tensor:
        """Find the best span per row, in the context: start <= end < start + max_answer_tokens.

        Of equally good spans it is the shortest. Without a context token, start and end are -1.

        Args:
            scores: logits [B, T, 2].
            labels: places of the first and last token [B, 2], -1 if unknown.
            context: bool [B, T], the tokens that an answer may have.

        Returns:
            [B, 5]: start, end, probability (of the start times of the end), loss (0 if unknown),
            sum of both logits (0 without a context token).
        """
        logs = scores.log_softmax(1)
        labelled = (labels >= 0).all(-1)
        picked = logs.gather(1, labels.clamp(min=0).unsqueeze(1)).squeeze(1)
        losses = torch.where(labelled, -picked.mean(-1), 0.0)
        inside = logs.masked_fill(~context.unsqueeze(-1), -torch.inf)
        starts, ends = inside.unbind(-1)
        places = torch.full_like(labels, -1)
        best = torch.full_like(losses, -torch.inf)
        for longer in range(min(self.max_answer_tokens, scores.shape[1])):
            value, start = (starts[:, : scores.shape[1] - longer] + ends[:, longer:]).max(-1)
            better = value > best
            best = torch.where(better, value, best)
            span = torch.stack([start, start + longer], 1)
            places = torch.where(better.unsqueeze(-1), span, places)
        best = torch.where(logs.isnan().any(-1).any(-1), torch.nan, best)
        chosen = scores.gather(1, places.clamp(min=0).unsqueeze(1)).squeeze(1).sum(-1)
        logits = torch.where(places[:, 0] < 0, 0.0, chosen)
        rest = torch.stack([best.exp(), losses, logits], 1)
        return torch.cat([places.to(scores.dtype), rest], 1)

    def row_values(self, scores: Tensor, batch: Any, longest: int) -> Tensor:
        """Return ``outcomes`` [B, 5].

        With ``no_answer`` two columns more, [B, 7]: of the first token the sum of both logits, and
        the probability (of the start times of the end).
        """
        values = self.outcomes(scores, batch.labels, batch.context)
        if self.threshold is None:
            return values
        first = [scores[:, 0].sum(-1), scores.log_softmax(1)[:, 0].sum(-1).exp()]
        return torch.cat([values, torch.stack(first, 1)], 1)
