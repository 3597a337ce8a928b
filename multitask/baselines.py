"""What a trained score is to be compared with: the trivial predictor, and frozen-encoder heads."""

import copy
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from multitask import metrics
from multitask.data.collate import Batch, label_tensor
from multitask.data.load import LabelReader, Rows
from multitask.data.masking import Masking, unigram_guess, unigrams
from multitask.data.tokenize import Tokens
from multitask.errors import NotFinite
from multitask.evaluate import Scores, Split, measure, over_rows, scores_of
from multitask.model import MultiTaskModel
from multitask.outcomes import metric_columns
from multitask.task_module import TaskModule

EPOCHS = 30
PATIENCE = 5  # epochs without a better score, where the pooler is trained too
BATCH_SIZE = 64

# (a task's pooler, split, int64 [B] rows or None for all) -> pooled vectors [B, sides, d]
Pooled = Callable[[Any, str, Tensor | None], Tensor]


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


def frozen_vectors(
    model: MultiTaskModel,
    tasks: Sequence[str],
    split: Split,
    *,
    pad_id: int,
    device: torch.device,
    title: str,
) -> dict[str, Tensor]:
    """Each task's pooled vectors of one split under the encoder as it is.

    The encoder runs once, whatever the tasks' poolers are, and sees a repeated text of pairs once.

    Returns:
        {task: [N, sides, d]} in file order.
    """

    def pooled(batch: Batch) -> Tensor:
        found = model.pooled(dict.fromkeys(tasks, batch))
        return torch.cat([found[task] for task in tasks], dim=-1)

    texts, which = split.tokens.inputs
    together = over_rows(
        model,
        texts,
        pooled,
        batch_size=BATCH_SIZE * split.tokens.sides,
        pad_id=pad_id,
        device=device,
        title=title,
    )
    widths = [model.module(task).pooler.output_dim for task in tasks]
    return dict(zip(tasks, together[which].split(widths, dim=-1), strict=True))


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

    The encoder runs once, without dropout; then see ``train_probe``. None for a pooler with
    parameters of its own, which frozen vectors cannot train, and for a task that is scored with
    another pooler than it trains with, or with another task's.
    """
    module = model.module(task)
    learned = has_parameters(module.pooler)
    if learned or len(model.owners_of(task)) > 1 or module.eval_pooler is not None:
        return None
    title = f"encoding {task}"
    vectors = {
        name: frozen_vectors(
            model, [task], splits[name], pad_id=pad_id, device=device, title=title
        )[task]
        for name in splits_in_use(splits)
    }
    probe = train_probe(
        module, fixed(vectors), splits, reader, lr=lr, metric=metric, seed=seed, task=task
    )
    return measure(probe.dev, splits["dev"].rows, reader)


def has_parameters(pooler: nn.Module) -> bool:
    """Whether a probe trains the pooler too, on token states instead of vectors."""
    return any(True for _ in pooler.parameters())


def fixed(vectors: Mapping[str, Tensor]) -> Pooled:
    """Vectors [N, sides, d] by split that no training changes."""
    return lambda pooler, split, rows: vectors[split] if rows is None else vectors[split][rows]


def splits_in_use(splits: Collection[str]) -> list[str]:
    """What a probe needs: ``train``, ``dev`` and, where there is one, ``holdout``."""
    return [name for name in ("train", "holdout", "dev") if name in splits]


@dataclass
class Probe:
    """A head trained on fixed vectors: its dev scores, at the step (of ``steps``) selected."""

    dev: Scores
    selected_step: int
    steps: int
    seconds: float


def train_probe(
    module: TaskModule,
    pooled: Pooled,
    splits: Mapping[str, Split],
    reader: LabelReader,
    *,
    lr: float,
    metric: str,
    seed: int,
    task: str,
) -> Probe:
    """Train a copy of a task's own modules, as initialised, on what a frozen encoder gives.

    30 epochs of AdamW; the epoch that is best on the selection split (``holdout`` where there is
    one, else ``dev``) counts, the untrained modules included. With a pooler that
    has parameters, whose epochs are dear, training stops after 5 epochs without a better score.
    Modules without parameters are scored as they are. Torch's own random state is kept.

    Args:
        module: the task's modules; they stay as they are.
        pooled: the vectors of each split in use: ``fixed``, or ``frozen_states.TokenStates`` for a
            pooler that has parameters.
        splits: the rows of these splits.
        reader: the task's label reader.
        lr: learning rate.
        metric: what selects the epoch.
        seed: of the order of rows and of dropout.
        task: its name, for an error.

    Raises:
        NotFinite: the scores have become NaN or infinite.
    """
    began = time.monotonic()
    select = "holdout" if "holdout" in splits else "dev"
    probe: Any = copy.deepcopy(module)

    def scores(name: str) -> Scores:
        probe.eval()
        with torch.no_grad():
            output = probe(_sides(pooled(probe.pooler, name, None)))
        if not output.isfinite().all():
            reason = "on the frozen encoder are not finite numbers: lower its `head_lr`"
            raise NotFinite(f"task {task}: the head's scores {reason}")
        return scores_of(probe.head, output, splits[name].rows)

    def selecting() -> float:
        return measure(scores(select), splits[select].rows, reader)[metric]

    trained = [parameter for parameter in probe.parameters() if parameter.requires_grad]
    if not trained:
        return Probe(scores("dev"), selected_step=0, steps=0, seconds=0.0)
    best, chosen = selecting(), copy.deepcopy(probe.state_dict())
    steps = selected_step = 0
    optimizer = torch.optim.AdamW(trained, lr=lr, weight_decay=0.0)
    gold = label_tensor(splits["train"].rows.gold).to(trained[0].device)
    rng = torch.Generator().manual_seed(seed)
    patience, waited = PATIENCE if has_parameters(probe.pooler) else EPOCHS, 0
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # the probe's dropout; the run's own random state is kept
        for _ in range(EPOCHS):
            probe.train()
            for index in torch.randperm(len(gold), generator=rng).split(BATCH_SIZE):
                output = probe(_sides(pooled(probe.pooler, "train", index)))
                optimizer.zero_grad()
                probe.head.loss(output, gold[index]).backward()
                optimizer.step()
                steps += 1
            value = selecting()
            if metrics.improves(value, best):
                best, selected_step, chosen = value, steps, copy.deepcopy(probe.state_dict())
                waited = 0
            else:
                waited += 1
            if waited == patience:
                break
    probe.load_state_dict(chosen)
    return Probe(scores("dev"), selected_step, steps, time.monotonic() - began)


def _sides(vectors: Tensor) -> Tensor:
    """[B, sides, d] -> [sides * B, d]: all first sentences, then all second ones."""
    return vectors.transpose(0, 1).flatten(0, 1)
