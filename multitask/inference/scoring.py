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

from multitask.config.registry import imported, task_type
from multitask.data.collate import Batch, collate, label_tensor, separate
from multitask.data.masking import Masking, masking_of
from multitask.data.tokenize import Split, Tokens, tokenize
from multitask.models.multitask_model import MultiTaskModel
from multitask.tasks import metrics
from multitask.tasks.examples import LabelReader, Rows
from multitask.utils import distributed
from multitask.utils.errors import NotFinite


@dataclass
class Scores:
    """A head's output over N rows, in file order.

    The files of ``multitask.tasks`` say which arrays the predictions and scores of a type are.
    """

    # such as class ids [N]
    predictions: np.ndarray
    # such as probabilities [N, C]
    scores: np.ndarray
    # the mean over rows, or over tokens; NaN without labels
    loss: float


def task_maskings(
    model: MultiTaskModel, tokenizer: Any, readers: Mapping[str, LabelReader]
) -> dict[str, Masking]:
    """Return how each masked-LM task masks its texts; other tasks are left out."""
    heads = {task: model.head(task) for task, r in readers.items() if r.task_type.masks_tokens}
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

    def over(self, tokens: Tokens, function: Callable[[Batch], Tensor], title: str) -> Tensor:
        """Apply ``function`` to every row; see ``over_rows``."""
        return over_rows(
            self.model,
            tokens,
            function,
            batch_size=self.batch_size,
            pad_id=self.tokenizer.pad_token_id,
            device=self.device,
            title=title,
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
    read_output = task_type(head.task_type).read_output
    if not read_output:
        return scores_of(head, output, split.rows)
    return Scores(*imported(read_output)(output.double().cpu().numpy(), split.rows, split.tokens))


def _of_rows(model: MultiTaskModel, task: str, tokens: Tokens, **how: Any) -> Tensor:
    """What the head says of each row, [N, ...]; see ``heads.base.Head.per_row``. ``how``: as for
    ``over_rows``."""
    head = model.head(task)
    longest = 0 if tokens.targets is None else int(tokens.masked.max())

    def output(batch: Batch) -> Tensor:
        scores = model(separate({task: batch}))[task]
        rows = None if batch.places is None else batch.places // batch.input_ids.shape[1]
        shape = (batch.rows, longest)
        kept: Tensor = head.per_row(
            scores, labels=batch.labels, rows=rows, shape=shape, context=batch.context
        )
        return kept

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
    """What ``over_rows`` found of N rows ([N, ...]) as predictions, scores and mean loss."""
    labels = None if rows.labels is None else label_tensor(rows.labels).to(output.device)
    predictions, scores, loss = head.results(output, labels)
    return Scores(predictions.cpu().numpy(), scores.cpu().numpy(), loss)


def measure(scores: Scores, rows: Rows, reader: LabelReader) -> dict[str, float]:
    """The metrics of a labelled split, with its mean loss."""
    columns = reader.task_type.columns(rows, reader, scores.predictions, scores.scores)
    return {**metrics.compute(reader.task_type, columns), "loss": scores.loss}
