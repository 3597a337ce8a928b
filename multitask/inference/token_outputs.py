"""From the heads of tagged words and of answers to a split's predictions, row by row."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from multitask.data.answers import characters_of
from multitask.data.collate import Batch
from multitask.data.tokenize import Tokens
from multitask.tasks.examples import Rows

# predictions, scores and mean loss, as `multitask.inference.scoring.Scores` has them
Found = tuple[np.ndarray, np.ndarray, float]


def tag_output(head: Any, scores: Tensor, batch: Batch, width: int) -> Tensor:
    """What the head says of each row's words that have a piece: [B, width, 3], then zeros."""
    if batch.places is None:
        raise ValueError("the batch holds no tagged words")
    rows = batch.places // batch.input_ids.shape[1]
    counts = torch.bincount(rows, minlength=batch.rows)
    number = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    found = scores.new_zeros(batch.rows, width, 3)
    found[rows, number] = head.outcomes(scores, batch.gold)
    return found


def tag_scores(output: Tensor, rows: Rows, tokens: Tokens) -> Found:
    """``tag_output`` of N rows -> tag ids and their probabilities [N, longest].

    -1 and NaN for a word without a piece, and behind a row's last word. The loss is the mean over
    the words with a piece.
    """
    if tokens.words is None or tokens.targets is None or rows.words is None:
        raise ValueError("the rows hold no tagged words")
    shape = (len(rows), max(map(len, rows.words)))
    predictions, scores = np.full(shape, -1, dtype=np.int64), np.full(shape, np.nan)
    found = output.double().cpu().numpy()
    pieces = np.flatnonzero(tokens.targets >= 0)
    row = np.searchsorted(tokens.offsets, pieces, side="right") - 1
    counts = np.bincount(row, minlength=len(rows))
    number = np.arange(len(pieces)) - (np.cumsum(counts) - counts)[row]
    tags, chances, losses = found[row, number].T
    predictions[row, tokens.words[pieces]] = tags.astype(np.int64)
    scores[row, tokens.words[pieces]] = chances
    known = rows.labels is not None and len(losses) > 0
    return predictions, scores, float(losses.mean()) if known else float("nan")


def span_output(head: Any, scores: Tensor, batch: Batch) -> Tensor:
    """The best span of each row: [B, 5], see ``SpanHead.outcomes``."""
    found: Tensor = head.outcomes(scores, batch.gold, batch.context)
    return found


def span_scores(output: Tensor, rows: Rows, tokens: Tokens) -> Found:
    """``span_output`` of N rows -> first and behind-last character [N, 2], probability [N, 1].

    Of several windows the one counts whose span has the highest logits. The loss is the mean over
    the inputs of rows whose answer is not cut off.
    """
    found = output.double().cpu().numpy()
    logits = np.where(found[:, 0] < 0, -np.inf, found[:, 4])
    order = np.lexsort((-logits, tokens.row_of))
    windows = order[np.unique(tokens.row_of[order], return_index=True)[1]]
    predictions = characters_of(rows, tokens, found[windows, :2].astype(np.int64), windows)
    loss = float("nan")
    if tokens.answers is not None and (tokens.answers[:, 0] >= 0).any():
        loss = float(found[tokens.answers[:, 0] >= 0, 3].mean())
    return predictions, found[windows, 2:3], loss
