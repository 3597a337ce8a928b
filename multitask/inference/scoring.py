"""Scores of a model over a split, in file order, and their metrics."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multitask.config.registry import task_type
from multitask.data.by_type import reading_of
from multitask.data.collate import Batch, collate, label_tensor, separate
from multitask.data.masking import Masking, masking_of
from multitask.data.tokenize import Split, Tokens, tokenize
from multitask.models.multitask_model import MultiTaskModel
from multitask.tasks import metrics
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.utils import distributed
from multitask.utils.errors import NotFinite
from multitask.utils.heartbeat import tracked


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
    # the share of pairs whose prediction differs when the texts are swapped; None if none can
    flip_rate: float | None = None


def task_maskings(
    model: MultiTaskModel, tokenizer: Any, tasks: Iterable[str], *, filled_in: bool = False
) -> dict[str, Masking]:
    """Return how each task masks its texts, which its head predicts; others are left out.

    With ``filled_in``: of the tasks that let a generator fill in what is masked.
    """
    heads = {task: model.head(task) for task in tasks}
    return {
        task: masking_of(tokenizer, head.mask_share, head.whole_words)
        for task, head in heads.items()
        if head.mask_share is not None and bool(head.generator_name) == filled_in
    }


@contextmanager
def _evaluating(model: MultiTaskModel) -> Iterator[None]:
    """Put the model in evaluation mode for the block, then restore its mode.

    The outer autocast context keeps the weights that inner contexts have cast; without it they
    would be cast again for every batch (bf16 on a CPU: 1.04 times as fast).
    """
    training = model.training
    model.eval()
    try:
        with torch.autocast("cpu", enabled=False):
            yield
    finally:
        model.train(training)


@dataclass(frozen=True)
class Scorer:
    """Runs a model over rows and texts, in evaluation mode; the model's mode is restored.

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

    @torch.no_grad()
    def over_rows(
        self,
        tokens: Tokens,
        function: Callable[[Batch], Tensor],
        *,
        batch_size: int | None = None,
        between_batches: Callable[[], None] = lambda: None,
        title: str = "",
    ) -> Tensor:
        """Apply ``function`` (a batch of B rows -> [B, ...]) to every row.

        Rows are batched by length and put back in file order. A ``title`` shows a progress bar;
        ``batch_size`` replaces the scorer's.

        Returns:
            [N, ...] on the device, in file order.
        """
        size = batch_size or self.batch_size
        order = np.argsort(tokens.lengths, kind="stable")
        parts = []
        starts = range(0, len(order), size)[distributed.rank() :: distributed.world()]
        with _evaluating(self.model):
            for start in tracked(starts, title):
                between_batches()
                index = order[start : start + size]
                batch = collate(tokens, index, pad_id=self.tokenizer.pad_token_id)
                parts.append((start, function(batch.to(self.device))))
        together = torch.cat(distributed.in_order(parts, self.device))
        return together[torch.from_numpy(np.argsort(order, kind="stable")).to(self.device)]

    def over_texts(
        self,
        texts: Sequence[str],
        function: Callable[[Batch], Tensor],
        max_length: int,
        title: str = "",
    ) -> np.ndarray:
        """``over_rows`` for N texts, each cut at ``max_length`` tokens: float32 [N, ...]."""
        rows = Rows("texts", [str(i) for i in range(len(texts))], [(text,) for text in texts], None)
        tokens = tokenize(rows, self.tokenizer, max_length=max_length)
        return self.over_rows(tokens, function, title=title).cpu().numpy()

    def vectors(
        self, task: str, texts: Sequence[str], max_length: int, title: str = ""
    ) -> np.ndarray:
        """Return a task's sentence vectors, float32 [N, d] in order."""
        return self.over_texts(texts, partial(self.model.vectors, task), max_length, title)

    def score(
        self,
        task: str,
        split: Split,
        between_batches: Callable[[], None] = lambda: None,
        *,
        choose: bool = False,
    ) -> Scores:
        """Score a split of a task, in file order; of pairs each distinct text is encoded once.

        With ``choose`` the head's threshold, if it has one, is first chosen on these rows.

        Raises NotFinite for scores that are NaN or infinite.
        """
        tokens, head = split.tokens, self.model.head(task)
        if tokens.sides > 1:
            return self.score_sides(task, split, self.pooled_sides(task, tokens, between_batches))
        longest = 0 if tokens.targets is None else int(tokens.masked.max())

        def output(batch: Batch) -> Tensor:
            scores = self.model(separate({task: batch}))[task]
            values: Tensor = head.row_values(scores, batch, longest)  # [B, ...]
            return values

        title = f"scoring {task}"
        scored = self.over_rows(tokens, output, between_batches=between_batches, title=title)
        return self._read(task, split, scored, choose)

    def _read(self, task: str, split: Split, output: Tensor, choose: bool = False) -> Scores:
        head = self.model.head(task)
        if not output.isfinite().all():
            raise NotFinite(f"task {task}: the model's scores are not finite numbers")
        how = reading_of(task_type(head.task_type))
        if how.read_output is None:
            return scores_of(head, output, split.rows)
        given = output.double().cpu().numpy(), split.rows, split.tokens
        if head.threshold is None:
            return Scores(*how.read_output(*given))
        if choose:
            assert how.threshold is not None, "a head with a threshold, of a type without one"
            head.threshold.fill_(how.threshold(*given))
        return Scores(*how.read_output(*given, threshold=head.threshold.item()))

    def pooled_sides(
        self, task: str, tokens: Tokens, between_batches: Callable[[], None] = lambda: None
    ) -> Tensor:
        """Return the pooled vectors [T, d] of the distinct sequences, ``tokens.inputs``, of rows
        with several sequences."""

        def pooled(batch: Batch) -> Tensor:
            return self.model.pooled(separate({task: batch}))[task]

        return self.over_rows(
            tokens.inputs[0],
            pooled,
            batch_size=tokens.sides * self.batch_size,
            between_batches=between_batches,
            title=f"scoring {task}",
        )

    @torch.no_grad()
    def score_sides(self, task: str, split: Split, pooled: Tensor) -> Scores:
        """Score a split from the vectors that ``pooled_sides`` returned; raises as ``score``."""
        module, batch = self.model.module(task), Batch.of_vectors(split.tokens.sides)
        rows = torch.from_numpy(split.tokens.inputs[1]).to(pooled.device)
        with _evaluating(self.model):
            parts = rows.split(self.batch_size)
            output = torch.cat([module(pooled[p.T.flatten()], batch) for p in parts])
            scores = self._read(task, split, output)
            if module.head.order_matters:
                swapped = torch.cat([module(pooled[p.T.flip(0).flatten()], batch) for p in parts])
                others = module.head.predict(swapped)[0].cpu().numpy()
                scores.flip_rate = float(np.mean(others != scores.predictions))
        return scores

    @torch.no_grad()
    def compared_vectors(self, task: str, pooled: Tensor) -> np.ndarray:
        """Turn pooled vectors [T, d] into sentence vectors as ``vectors`` returns them, float32."""
        with _evaluating(self.model):
            return self.model.compared(task, pooled).cpu().numpy()


def scores_of(head: Any, output: Tensor, rows: Rows) -> Scores:
    """Turn a head's output for N rows [N, ...] into predictions, scores and the mean loss."""
    labels = None if rows.labels is None else label_tensor(rows.labels).to(output.device)
    predictions, scores, loss = head.results(output, labels)
    return Scores(predictions.cpu().numpy(), scores.cpu().numpy(), loss)


def measure(scores: Scores, rows: Rows, reader: LabelReader) -> dict[str, float]:
    """Compute the metrics of a labelled split, and its mean loss."""
    columns = reader.task_type.columns(rows, reader, scores.predictions, scores.scores)
    return {**metrics.compute(reader.task_type, columns, reader.metrics), "loss": scores.loss}
