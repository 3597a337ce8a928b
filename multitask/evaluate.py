"""Scores of a model over a whole split, in file order, and their metrics."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from multitask import metrics
from multitask.data.collate import collate
from multitask.data.load import LabelReader, Rows
from multitask.data.tokenize import Tokens
from multitask.model import MultiTaskModel


@dataclass
class Split:
    """One split of one task, ready for the model."""

    rows: Rows
    tokens: Tokens


@dataclass
class Scores:
    """A head's output over N rows, in file order.

    ``predictions`` are class ids, 0/1 or numbers [N]; ``scores`` are probabilities [N, C],
    probabilities of 1 [N, 1] or the numbers [N, 1]; ``loss`` is the mean over rows, NaN without
    labels.
    """

    predictions: np.ndarray
    scores: np.ndarray
    loss: float


@torch.inference_mode()
def score_split(
    model: MultiTaskModel,
    task: str,
    split: Split,
    *,
    batch_size: int,
    pad_id: int,
    device: torch.device,
    between_batches: Callable[[], None] = lambda: None,
) -> Scores:
    """Run a split through the model in evaluation mode.

    Rows are batched by length and put back in file order. The model's mode is restored.
    """
    training = model.training
    model.eval()
    head = model.head(task)
    order = np.argsort(split.tokens.lengths, kind="stable")
    labels = split.rows.labels
    predictions, scores, loss = [], [], 0.0
    for start in range(0, len(order), batch_size):
        between_batches()
        index = order[start : start + batch_size]
        batch = collate(split.tokens, labels, index, pad_id=pad_id).to(device)
        output = model(task, batch)
        if batch.labels is not None:
            loss += head.loss(output, batch.labels).item() * len(index)
        predicted, shown = head.predict(output)
        predictions.append(predicted.cpu().numpy())
        scores.append(shown.cpu().numpy())
    model.train(training)
    back = np.argsort(order, kind="stable")
    return Scores(
        np.concatenate(predictions)[back],
        np.concatenate(scores)[back],
        loss / len(order) if labels is not None else float("nan"),
    )


def measure(scores: Scores, rows: Rows, reader: LabelReader) -> dict[str, float]:
    """The metrics of a labelled split, with its mean loss."""
    found = metrics.compute(
        reader.label_type, rows.gold, scores.predictions, scores.scores, len(reader.names)
    )
    return {**found, "loss": scores.loss}
