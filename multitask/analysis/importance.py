"""Importance scores of hidden states, over a split and example by example (HIRE, section 6)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from multitask.analysis.importance_figure import Importance
from multitask.data.collate import Batch
from multitask.data.tokenize import Tokens
from multitask.errors import UserError
from multitask.evaluate import over_rows
from multitask.model import MultiTaskModel
from multitask.score_watch import importance_of, scores_states, watched_scores


def importance(
    model: MultiTaskModel,
    task: str,
    tokens: Tokens,
    texts: Sequence[Sequence[str]],
    *,
    split: str,
    examples: int,
    batch_size: int,
    pad_id: int,
    device: torch.device,
) -> Importance:
    """The scores S of a task's pooler, computed by the model's own forward pass.

    The two sentences of a siamese pair count one by one, the first one first.

    Args:
        model: with the weights that serve the task.
        task: its name.
        tokens: N rows.
        texts: their texts, one or two a row.
        split: what the rows are, for the picture.
        examples: of how many rows the scores are kept one by one, from the first on.
        batch_size: rows in one batch.
        pad_id: id of the pad token.
        device: the model's.

    Raises:
        UserError: the task's pooler weighs no hidden states.
    """
    pooler = model.module(task).scoring_pooler
    if not scores_states(pooler):
        raise UserError(f"task {task}: its pooler weighs no hidden states; `pooling: hire` does")

    def alpha(batch: Batch) -> Tensor:
        with watched_scores(pooler) as seen:
            model.pooled({task: batch})
        return torch.stack(seen[0].chunk(batch.sides), dim=1)

    scores = over_rows(
        model,
        tokens,
        alpha,
        batch_size=batch_size,
        pad_id=pad_id,
        device=device,
        title=f"scoring the layers of {task}",
    ).flatten(0, 1)
    weights = importance_of(scores)
    kept = examples * tokens.sides
    sentences = [
        text
        for row in texts[:examples]
        for text in (row if tokens.sides == 2 else [" / ".join(row)])
    ]
    learned = any(True for _ in pooler.scorer.parameters())
    return Importance(
        task=task,
        split=split,
        layers=model.encoder.num_layers,
        states=list(pooler.scored),
        rows=len(weights),
        mean=weights.double().mean(0).tolist(),
        above_0=(scores > 0).double().mean().item() if learned else None,
        texts=sentences,
        weights=weights[:kept].tolist(),
    )
