"""What a trained score is to be compared with: the trivial predictor, and frozen-encoder heads."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multitask import metrics
from multitask.data.collate import label_tensor
from multitask.data.load import LabelReader, Rows
from multitask.evaluate import Scores, Split, measure, over_rows
from multitask.model import MultiTaskModel

EPOCHS = 30
BATCH_SIZE = 64


def trivial_scores(train: Rows, dev: Rows, reader: LabelReader) -> dict[str, float]:
    """Dev metrics of the majority class or the mean of the training labels."""
    guess, scores = metrics.trivial(reader.label_type, train.gold, len(dev), len(reader.names))
    return metrics.compute(reader.label_type, dev.gold, guess, scores, len(reader.names))


def trivial_loss(head: Any, labels: np.ndarray, classes: int, device: torch.device) -> float:
    """The mean loss of a head's trivial predictor on its training labels [N].

    Classes get their frequencies (one that never occurs, that of a single row), numbers their
    mean; the loss is the head's own, so that class weights and smoothing count.
    """
    gold = label_tensor(labels).to(device)
    if head.label_type == "number":
        scores = gold.mean().expand(len(gold))
    elif head.label_type == "binary":
        scores = torch.logit(gold.float().mean()).expand(len(gold))
    else:
        counts = torch.bincount(gold, minlength=classes).clamp(min=1)
        scores = (counts / len(gold)).log().expand(len(gold), -1)
    with torch.no_grad():
        return float(head.loss(scores, gold))


def frozen_vectors(
    model: MultiTaskModel, task: str, split: Split, *, pad_id: int, device: torch.device
) -> Tensor:
    """Pooled vectors of a split under the encoder as it is, [N, sides, d] in file order."""
    sides = model.module(task).sides
    return over_rows(
        model,
        split.tokens,
        lambda batch: torch.stack(model.pooled({task: batch})[task].chunk(sides), dim=1),
        batch_size=BATCH_SIZE,
        pad_id=pad_id,
        device=device,
        title=f"encoding {task}",
    )


def frozen_head_scores(
    model: MultiTaskModel,
    task: str,
    splits: dict[str, Split],
    reader: LabelReader,
    *,
    lr: float,
    metric: str,
    seed: int,
    pad_id: int,
    device: torch.device,
) -> dict[str, float] | None:
    """Dev metrics of the task's own projection and head, trained on the frozen encoder.

    The encoder runs once, without dropout; a copy of the head (as initialised) trains on its
    vectors for 30 epochs of AdamW, and the epoch that is best on the selection split (``holdout``
    where there is one, else ``dev``) counts. A head without parameters is scored as it is. None
    for a pooler with parameters of its own, which frozen vectors cannot train.
    """
    module = model.module(task)
    if any(True for _ in module.pooler.parameters()):
        return None
    select = "holdout" if "holdout" in splits else "dev"

    vectors = {
        name: frozen_vectors(model, task, splits[name], pad_id=pad_id, device=device)
        for name in dict.fromkeys(("train", select, "dev"))
    }
    probe = copy.deepcopy(module)

    def scores(name: str) -> dict[str, float]:
        probe.eval()
        with torch.no_grad():
            output = probe(_sides(vectors[name]))
        guess, shown = probe.head.predict(output)
        found = Scores(guess.cpu().numpy(), shown.cpu().numpy(), float("nan"))
        return measure(found, splits[name].rows, reader)

    best, best_dev = scores(select)[metric], scores("dev")
    trained = [parameter for parameter in probe.parameters() if parameter.requires_grad]
    if not trained:
        return best_dev
    optimizer = torch.optim.AdamW(trained, lr=lr, weight_decay=0.0)
    labels = label_tensor(splits["train"].rows.gold).to(device)
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # the probe's dropout; the run's own random state is kept
        for _ in range(EPOCHS):
            probe.train()
            for index in torch.randperm(len(labels), generator=rng).split(BATCH_SIZE):
                output = probe(_sides(vectors["train"][index]))
                optimizer.zero_grad()
                probe.head.loss(output, labels[index]).backward()
                optimizer.step()
            value = scores(select)[metric]
            if metrics.improves(value, best):
                best, best_dev = value, scores("dev")
    return best_dev


def _sides(vectors: Tensor) -> Tensor:
    """[B, sides, d] -> [sides * B, d]: all first sentences, then all second ones."""
    return vectors.transpose(0, 1).flatten(0, 1)
