"""Collate token ids to padded batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from multitask.data.tokenize import Tokens
from multitask.utils.device import send


@dataclass
class Batch:
    """B rows of one task, as S padded sequences of T tokens.

    - S = B for single texts and cross-encoded pairs.
    - S = 2B for siamese pairs (all first sentences, then all second ones) and for two views of a
      text.
    - S = 3B for triplets.

    Attributes:
        input_ids: int64 [S, T].
        attention_mask: 1 for tokens and 0 for pads, int64 [S, T].
        token_type_ids: int64 [S, T].
        labels: None without labels, else
            - [B], or [M] if only M rows have a label;
            - [M] for M tokens with a label (``places``);
            - [B, texts], the number of each text, for contrastive tasks;
            - [B, 2], the first and last token of the answer, -1 if it is not known.
        sides: S / B.
        pad_id: the id of the tokenizer's pad token.
        labelled: the M rows that have a label, int64 [M]; None: all rows.
        share: the number of labels (of rows or tokens) in this batch, divided by ``step_rows``.
        step_rows: the number of labels in the step, on all processes.
        places: positions of the tokens with a label, int64 [M], in the flat [S * T]: masked tokens,
            whose labels are their ids, or the first tokens of tagged words.
        masked_ids: input ids with masked tokens, int64 [S, T], for a loss that also needs the
            original ids.
        context: True for the tokens that may be part of an answer, bool [S, T].
        lengths: the tokens of each sequence, int64 [S] on the host, where all pads are at the end.
        teacher: a teacher's scores for the M rows with a label, float32 [M, K]; None without one.
        teacher_weight: their share in the loss.
        temperature: softens the teacher's and the student's probabilities.
    """

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor
    labels: Tensor | None
    sides: int
    pad_id: int
    labelled: Tensor | None = None
    share: float = 1.0
    step_rows: int = 0
    places: Tensor | None = None
    masked_ids: Tensor | None = None
    context: Tensor | None = None
    lengths: np.ndarray | None = None
    teacher: Tensor | None = None
    teacher_weight: float = 0.0
    temperature: float = 1.0

    @classmethod
    def of_vectors(cls, sides: int, labels: Tensor | None = None) -> "Batch":
        """Return a batch without tokens, for vectors that are pooled already."""
        none = torch.empty(0, 0, dtype=torch.int64)
        return cls(none, none, none, labels, sides, pad_id=0)

    @property
    def rows(self) -> int:
        return len(self.input_ids) // self.sides

    @property
    def row_of_place(self) -> Tensor:
        """The row of each of the M tokens with a label, int64 [M]."""
        assert self.places is not None, "no token has a label"
        return self.places // self.input_ids.shape[1]

    @property
    def gold(self) -> Tensor:
        """The labels. Raises ValueError if the batch has none."""
        if self.labels is None:
            raise ValueError("the batch has no labels")
        return self.labels

    def to(self, device: torch.device) -> "Batch":
        return SharedBatch(self, {}).to(device).inputs

    def parts(self, size: int) -> list["Batch"]:
        """Cut the inputs into parts of at most ``size`` sequences, without labels."""
        parts = []
        for start in range(0, len(self.input_ids), size):
            part = slice(start, start + size)
            inputs = (self.input_ids[part], self.attention_mask[part], self.token_type_ids[part])
            lengths = None if self.lengths is None else self.lengths[part]
            parts.append(Batch(*inputs, None, 1, self.pad_id, lengths=lengths))
        return parts

    def twice(self) -> "Batch":
        """Return the B rows and then the same rows: 2B rows, again one side after another."""

        def rows(values: Any) -> Any:
            if values is None:
                return None
            return torch.cat([part for side in values.chunk(self.sides) for part in (side, side)])

        def labels(values: Any, step: int = 0) -> Any:
            return None if values is None else torch.cat([values, values + step])

        lengths = self.lengths
        if lengths is not None:
            lengths = np.tile(lengths.reshape(self.sides, -1), 2).ravel()
        return replace(
            self,
            input_ids=rows(self.input_ids),
            attention_mask=rows(self.attention_mask),
            token_type_ids=rows(self.token_type_ids),
            labels=labels(self.labels),
            labelled=labels(self.labelled, self.rows),
            places=labels(self.places, self.rows * self.input_ids.shape[1]),
            masked_ids=rows(self.masked_ids),
            context=rows(self.context),
            lengths=lengths,
            teacher=labels(self.teacher),
        )

    def with_labels(
        self, labels: np.ndarray, missing: np.ndarray, *, share: float, step_rows: int
    ) -> "Batch":
        """Return the same inputs with another task's labels [B]; see ``TaskType.missing``.

        The batch must be on a CPU still.
        """
        labelled = None
        if missing.any():
            labelled = torch.from_numpy(np.flatnonzero(~missing))
        chosen = label_tensor(labels[~missing])
        return replace(self, labels=chosen, labelled=labelled, share=share, step_rows=step_rows)


@dataclass
class SharedBatch:
    """Rows that go through the encoder once, for every task that uses them.

    Attributes:
        inputs: the padded rows.
        tasks: each task's batch: the same inputs with the task's labels.
    """

    inputs: Batch
    tasks: Mapping[str, Batch]

    def to(self, device: torch.device) -> "SharedBatch":
        """Move all tensors to a device, each once, in one transfer per dtype."""
        if self.inputs.input_ids.device == device:
            return self
        batches = (self.inputs, *self.tasks.values())
        tensors = {
            id(v): v for batch in batches for v in vars(batch).values() if torch.is_tensor(v)
        }
        moved: dict[int, Tensor] = {}
        for dtype in {tensor.dtype for tensor in tensors.values()}:
            same = {key: tensor for key, tensor in tensors.items() if tensor.dtype == dtype}
            sent = send([tensor.numpy() for tensor in same.values()], device)
            moved |= dict(zip(same, sent, strict=True))

        def there(batch: Batch) -> Batch:
            fields = {k: moved[id(v)] for k, v in vars(batch).items() if torch.is_tensor(v)}
            return replace(batch, **fields)  # type: ignore[arg-type]

        return SharedBatch(there(self.inputs), {t: there(b) for t, b in self.tasks.items()})


def separate(batches: Mapping[str, Batch]) -> list[SharedBatch]:
    """Wrap the batches of tasks that do not share rows."""
    return [SharedBatch(batch, {task: batch}) for task, batch in batches.items()]


def by_task(batches: Sequence[SharedBatch]) -> dict[str, Batch]:
    """Return each task's batch, in order."""
    return {task: batch for shared in batches for task, batch in shared.tasks.items()}


def label_tensor(labels: np.ndarray) -> Tensor:
    """Convert labels to a tensor: class ids to int64, numbers and multi-label to float32."""
    made = torch.from_numpy(labels)
    return made.float() if made.is_floating_point() else made


def collate(tokens: Tokens, index: np.ndarray, *, pad_id: int) -> Batch:
    """Make a batch of the rows ``index`` of a split, padded to the longest sequence among them.

    The batch has labels only if the tokens contain them (masked tokens, tags, answers).
    """
    places, inside = tokens.places(index)

    def padded(values: np.ndarray, fill: int) -> np.ndarray:
        return np.where(inside, values[places], fill).astype(np.int64)

    batch = Batch(
        torch.from_numpy(padded(tokens.ids, pad_id)),
        torch.from_numpy(inside.astype(np.int64)),
        torch.from_numpy(padded(tokens.types, 0)),
        None,
        tokens.sides,
        pad_id,
        lengths=inside.sum(1),
    )
    if tokens.spans is not None:  # the head looks for an answer in the context
        context = padded(tokens.spans[:, 0], -1) >= 0
        unknown = np.full((len(index), 2), -1)
        answers = unknown if tokens.answers is None else tokens.answers[index]
        return replace(batch, context=torch.from_numpy(context), labels=torch.from_numpy(answers))
    if tokens.targets is None:
        return batch
    targets = padded(tokens.targets, -1)
    hidden = np.flatnonzero(targets >= 0)
    labels = torch.from_numpy(targets.ravel()[hidden])
    return replace(batch, labels=labels, places=torch.from_numpy(hidden))


def joined_lengths(batches: Sequence[Batch]) -> np.ndarray | None:
    """Concatenate the batches' ``lengths``; None if one of them has none."""
    lengths = [batch.lengths for batch in batches if batch.lengths is not None]
    return np.concatenate(lengths) if len(lengths) == len(batches) else None


def joined(batches: Sequence[Batch]) -> tuple[Tensor, Tensor, Tensor]:
    """Concatenate batches to (input ids, token types, mask), padded to the longest sequence."""
    width = max(batch.input_ids.shape[1] for batch in batches)

    def stack(name: str, fill: int) -> Tensor:
        parts = [getattr(batch, name) for batch in batches]
        return torch.cat([pad(part, (0, width - part.shape[1]), value=fill) for part in parts])

    ids = stack("input_ids", batches[0].pad_id)
    return ids, stack("token_type_ids", 0), stack("attention_mask", 0)
