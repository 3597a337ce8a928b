"""What a trained score is to be compared with: the trivial predictor, and frozen-encoder heads."""

import math
from typing import Any

import numpy as np
import torch

from multitask.data.collate import label_tensor
from multitask.data.masking import Masking, unigram_guess, unigrams
from multitask.data.tokenize import Split, Tokens
from multitask.tasks import metrics
from multitask.tasks.examples import LabelReader, Rows
from multitask.tasks.records import metric_columns


def trivial_scores(train: Rows, dev: Rows, reader: LabelReader) -> dict[str, float]:
    """Dev metrics of the majority class or the mean of the training labels."""
    guess, scores = metrics.trivial(reader.label_type, train.gold, len(dev), len(reader.names))
    return metrics.compute(reader.label_type, dev.gold, guess, scores, len(reader.names))


def trivial_outcome_scores(train: Rows, dev: Rows, reader: LabelReader) -> dict[str, float]:
    """Dev metrics of the most frequent tag of the training words, and of the whole context as the
    answer."""
    if reader.label_type == "span":
        predictions = np.array([[0, len(texts[1])] for texts in dev.texts])
        scores = np.ones((len(dev), 1))
    else:
        most = np.bincount(train.gold[train.gold >= 0]).argmax()
        predictions, scores = np.full(dev.gold.shape, most), np.ones(dev.gold.shape)
    columns = metric_columns(dev, reader, predictions, scores)
    return metrics.compute(reader.label_type, *columns)


def trivial_answer_loss(train: Tokens) -> float:
    """The mean loss of answers where all tokens of an input are equally likely."""
    return float(np.log(train.lengths).mean())


def trivial_token_scores(train: Tokens, dev: Split, masking: Masking) -> dict[str, float]:
    """Dev metrics of masked tokens predicted by their frequency in the training texts."""
    right, losses = unigram_guess(dev.tokens, unigrams(train, masking))
    return metrics.compute("tokens", dev.rows.gold, right, losses[:, None])


def trivial_view_scores(head: Any, rows: Rows) -> dict[str, float]:
    """Dev metrics of guessing among the candidates of each row of a contrastive task."""
    equal = torch.ones(*rows.gold.shape[:1], 3 if rows.gold.shape[1] == 3 else 2, 1)
    chance = float(head.outcomes(equal, label_tensor(rows.gold))[:, 1].mean())
    return {"probability": chance, "accuracy": chance}


def trivial_view_loss(batch_size: int, texts: int) -> float:
    """The mean loss of the same in training: log of the candidates, B or with negatives 2B."""
    return math.log(batch_size * max(1, texts - 1))


def trivial_token_loss(train: Tokens, masking: Masking) -> float:
    """The mean loss of the same on the training texts themselves: their entropy a token."""
    logs = unigrams(train, masking)[train.ids]
    return -float(logs[masking.maskable[train.ids]].mean())


def trivial_loss(head: Any, labels: np.ndarray, classes: int, device: torch.device) -> float:
    """The mean loss of a head's trivial predictor on its training labels [N].

    Classes get their frequencies (one that never occurs, that of a single row; several at once,
    [N, C], each its own), numbers their mean; the loss is the head's own, so that class weights and
    smoothing count.
    """
    gold = label_tensor(labels).to(device)
    if head.label_type == "number":
        scores = gold.mean().expand(len(gold))
    elif head.label_type == "labels":
        counts = gold.sum(0).clamp(min=1, max=len(gold) - 1)  # finite where all rows are alike
        scores = torch.logit(counts / len(gold)).expand(len(gold), -1)
    elif head.label_type == "binary":
        scores = torch.logit(gold.float().mean()).expand(len(gold))
    else:
        counts = torch.bincount(gold, minlength=classes).clamp(min=1)
        scores = (counts / len(gold)).log().expand(len(gold), -1)
    with torch.no_grad():
        return float(head.loss(scores, gold))
