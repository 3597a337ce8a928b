"""Scores of a model over a whole split, in file order, and their metrics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from multitask.data.collate import Batch, collate, label_tensor, separate
from multitask.data.masking import Masking, masking_of
from multitask.data.tokenize import Split, Tokens, tokenize
from multitask.inference.token_outputs import span_output, span_scores, tag_output, tag_scores
from multitask.models.multitask_model import MultiTaskModel
from multitask.tasks import metrics
from multitask.tasks.examples import LabelReader, Rows
from multitask.tasks.records import metric_columns
from multitask.utils import distributed
from multitask.utils.errors import NotFinite


@dataclass
class Scores:
    """A head's output over N rows, in file order.

    ``predictions`` are class ids, 0/1 or numbers [N]; ``scores`` are probabilities [N, C],
    probabilities of 1 [N, 1] or the numbers [N, 1]; ``loss`` is the mean over rows, NaN without
    labels. Of a contrastive task they are whether the right text was nearest [N], its probability
    [N, 1], and the mean of -log of it. Of masked tokens they are how many of a text were predicted
    right [N], their summed loss [N, 1], and the mean loss over all masked tokens. Of tagged words
    and of answers see ``multitask.inference.token_outputs``.
    """

    predictions: np.ndarray
    scores: np.ndarray
    loss: float


def task_maskings(
    model: MultiTaskModel, tokenizer: Any, readers: Mapping[str, LabelReader]
) -> dict[str, Masking]:
    """Return how each masked-LM task masks its texts; other tasks are left out."""
    heads = {task: model.head(task) for task, r in readers.items() if r.label_type == "tokens"}
    return {
        task: masking_of(tokenizer, head.mask_share, head.whole_words)
        for task, head in heads.items()
    }


def generator_maskings(
    model: MultiTaskModel, tokenizer: Any, tasks: Iterable[str]
) -> dict[str, Masking]:
    """Return how each task with a generator masks the texts that the generator fills in."""
    heads = {task: model.head(task) for task in tasks}
    return {
        task: masking_of(tokenizer, head.mask_share, whole_words=False)
        for task, head in heads.items()
        if hasattr(head, "use_generator")
    }


@contextmanager
def _evaluating(model: MultiTaskModel) -> Iterator[None]:
    """Evaluation mode, and the model's own again.

    Autocast inside would cast the weights anew for every batch; a context round it keeps what was
    cast (bf16 on a CPU: 1.04 times as fast).
    """
    training = model.training
    model.eval()
    try:
        with torch.autocast("cpu", enabled=False):
            yield
    finally:
        model.train(training)


@torch.no_grad()
def over_rows(
    model: MultiTaskModel,
    tokens: Tokens,
    function: Callable[[Batch], Tensor],
    *,
    batch_size: int,
    pad_id: int,
    device: torch.device,
    between_batches: Callable[[], None] = lambda: None,
    title: str = "",
) -> Tensor:
    """Apply ``function`` (a batch of B rows -> [B, ...]) to every row, in evaluation mode.

    Rows are batched by length and put back in file order; the model's mode is restored.

    Returns:
        [N, ...] on the device, in file order.
    """
    order = np.argsort(tokens.lengths, kind="stable")
    parts = []
    starts = range(0, len(order), batch_size)[distributed.rank() :: distributed.world()]
    hidden = None if title and distributed.rank() == 0 else True
    with _evaluating(model):
        for start in tqdm(starts, desc=title, leave=False, disable=hidden):
            between_batches()
            index = order[start : start + batch_size]
            batch = collate(tokens, index, pad_id=pad_id).to(device)
            parts.append((start, function(batch)))
    together = torch.cat(distributed.in_order(parts, device))
    return together[torch.from_numpy(np.argsort(order, kind="stable")).to(device)]


def over_texts(
    model: MultiTaskModel,
    tokenizer: Any,
    texts: Sequence[str],
    function: Callable[[Batch], Tensor],
    *,
    max_length: int,
    batch_size: int,
    device: torch.device,
    title: str = "",
) -> np.ndarray:
    """``over_rows`` for N texts, each cut at ``max_length`` tokens: float32 [N, ...] in order."""
    rows = Rows("texts", [str(i) for i in range(len(texts))], [(text,) for text in texts], None)
    found = over_rows(
        model,
        tokenize(rows, tokenizer, siamese=False, max_length=max_length),
        function,
        batch_size=batch_size,
        pad_id=tokenizer.pad_token_id,
        device=device,
        title=title,
    )
    return found.cpu().numpy()


@dataclass(frozen=True)
class Scorer:
    """Runs a model over splits and texts.

    Attributes:
        model: the model, with the weights that it has when it is asked.
        tokenizer: the encoder's tokenizer.
        batch_size: rows per batch.
        device: where the model is.
    """

    model: MultiTaskModel
    tokenizer: Any
    batch_size: int
    device: torch.device

    def score(
        self, task: str, split: Split, between_batches: Callable[[], None] = lambda: None
    ) -> Scores:
        """Score a split of a task; see ``score_split``."""
        return score_split(
            self.model,
            task,
            split,
            batch_size=self.batch_size,
            pad_id=self.tokenizer.pad_token_id,
            device=self.device,
            between_batches=between_batches,
        )

    def vectors(
        self, task: str, texts: Sequence[str], max_length: int, title: str = ""
    ) -> np.ndarray:
        """Return a task's sentence vectors, float32 [N, d] in order; see ``over_texts``."""
        return over_texts(
            self.model,
            self.tokenizer,
            texts,
            partial(self.model.vectors, task),
            max_length=max_length,
            batch_size=self.batch_size,
            device=self.device,
            title=title,
        )


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
    """A task's scores over a split, in file order; of pairs each distinct text is encoded once.

    Raises NotFinite for scores that are NaN or infinite.
    """
    head, siamese = model.head(task), split.tokens.sides > 1
    output = (_of_sides if siamese else _of_rows)(
        model,
        task,
        split.tokens,
        batch_size=batch_size,
        pad_id=pad_id,
        device=device,
        between_batches=between_batches,
        title=f"scoring {task}",
    )
    if not output.isfinite().all():
        raise NotFinite(f"task {task}: the model's scores are not finite numbers")
    if head.label_type == "tags":
        return Scores(*tag_scores(output, split.rows, split.tokens))
    if head.label_type == "span":
        return Scores(*span_scores(output, split.rows, split.tokens))
    return scores_of(head, output, split.rows)


def _of_rows(model: MultiTaskModel, task: str, tokens: Tokens, **how: Any) -> Tensor:
    """The head's scores [N] or [N, C]; of masked texts, (right, summed loss) of each [N, 2]; of
    tagged words and of answers what the head says of each row. ``how``: as for ``over_rows``."""
    head = model.head(task)

    def output(batch: Batch) -> Tensor:
        scores = model(separate({task: batch}))[task]
        if batch.context is not None:
            return span_output(head, scores, batch)
        if batch.places is None:
            return scores
        if head.label_type == "tags":
            return tag_output(head, scores, batch, int(tokens.masked.max()))
        rows = batch.places // batch.input_ids.shape[1]
        outcomes = head.outcomes(scores, batch.gold)
        return outcomes.new_zeros(batch.rows, 2).index_add(0, rows, outcomes)

    return over_rows(model, tokens, output, **how)


@torch.no_grad()
def _of_sides(
    model: MultiTaskModel, task: str, tokens: Tokens, batch_size: int, **how: Any
) -> Tensor:
    """The head's scores [N, ...] of N pairs or triplets; each distinct text is encoded once."""
    texts, which = tokens.inputs

    def pooled(batch: Batch) -> Tensor:
        return model.pooled(separate({task: batch}))[task]

    vectors = over_rows(model, texts, pooled, batch_size=tokens.sides * batch_size, **how)
    rows = torch.from_numpy(which).to(vectors.device)
    with _evaluating(model):
        parts = rows.split(batch_size)
        return torch.cat([model.module(task)(vectors[part.T.flatten()]) for part in parts])


def scores_of(head: Any, output: Tensor, rows: Rows) -> Scores:
    """What ``over_rows`` found of N rows ([N] or [N, C]) as predictions, scores and mean loss."""
    if head.label_type == "tokens":
        right, losses = output.double().cpu().numpy().T
        masked = rows.gold.sum()
        loss = losses.sum() / masked if masked else float("nan")
        return Scores(right.astype(np.int64), losses[:, None], float(loss))
    if head.label_type == "views":
        found = head.outcomes(output, label_tensor(rows.gold).to(output.device)).double().cpu()
        right, chance = found.numpy().T
        loss = float(-np.log(np.maximum(chance, np.finfo(np.float32).tiny)).mean())
        return Scores(right.astype(np.int64), chance[:, None], loss)
    predictions, shown = head.predict(output)
    loss = float("nan")
    if rows.labels is not None:
        loss = head.loss(output, label_tensor(rows.labels).to(output.device)).item()
    return Scores(predictions.cpu().numpy(), shown.cpu().numpy(), loss)


def measure(scores: Scores, rows: Rows, reader: LabelReader) -> dict[str, float]:
    """The metrics of a labelled split, with its mean loss."""
    columns = metric_columns(rows, reader, scores.predictions, scores.scores)
    found = metrics.compute(reader.label_type, *columns, len(reader.names))
    return {**found, "loss": scores.loss}
