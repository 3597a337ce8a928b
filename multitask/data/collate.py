"""Padded tensors from token ids: rows in, one batch out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from multitask.data.tokenize import Tokens
from multitask.tasks.examples import is_missing


@dataclass
class Batch:
    """B rows of one task.

    ``input_ids``, ``attention_mask`` and ``token_type_ids`` are int64 [S, T] with S = 2B for
    siamese pairs (all first sentences, then all second ones), 3B for triplets, 2B for texts that
    stand twice, and S = B otherwise. ``labels`` [B] ([B, texts] of numbered texts), or [M] where
    only the M rows ``labelled`` (int64 [M]) have one. ``share`` is the part that these are of its
    step's ``step_rows`` labelled rows, on all ranks.

    Of masked texts ``places`` (int64 [M], in [S * T]) are the tokens to predict, ``labels`` [M]
    their ids, and ``share`` is the part of the step's masked tokens. ``masked_ids`` int64 [S, T]
    are the inputs with tokens masked, where the loss also wants those. Of tagged words they are the
    first pieces and the tags' ids.

    Of questions ``context`` (bool [S, T]) are the tokens that an answer may have, and ``labels``
    [B, 2] the answer's first and last token, -1 where it is not known.
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

    @property
    def rows(self) -> int:
        return len(self.input_ids) // self.sides

    @property
    def gold(self) -> Tensor:
        """The labels of a batch that must have them. Raises ValueError where it has none."""
        if self.labels is None:
            raise ValueError("the batch has no labels")
        return self.labels

    def to(self, device: torch.device) -> "Batch":
        return Batch(
            self.input_ids.to(device),
            self.attention_mask.to(device),
            self.token_type_ids.to(device),
            None if self.labels is None else self.labels.to(device),
            self.sides,
            self.pad_id,
            None if self.labelled is None else self.labelled.to(device),
            self.share,
            self.step_rows,
            None if self.places is None else self.places.to(device),
            None if self.masked_ids is None else self.masked_ids.to(device),
            None if self.context is None else self.context.to(device),
        )

    def parts(self, size: int) -> list["Batch"]:
        """The inputs alone, at most ``size`` sequences at a time."""
        tensors = (self.input_ids, self.attention_mask, self.token_type_ids)
        return [
            Batch(ids, mask, types, None, 1, self.pad_id)
            for ids, mask, types in zip(*(tensor.split(size) for tensor in tensors), strict=True)
        ]

    def with_labels(self, labels: np.ndarray, share: float, step_rows: int) -> "Batch":
        """The same inputs with another task's labels [B]; see ``is_missing``."""
        missing = is_missing(labels)
        labelled = None
        if missing.any():
            labelled = torch.from_numpy(np.flatnonzero(~missing)).to(self.input_ids.device)
        chosen = label_tensor(labels[~missing]).to(self.input_ids.device)
        return replace(self, labels=chosen, labelled=labelled, share=share, step_rows=step_rows)


@dataclass
class SharedBatch:
    """Rows that go through the encoder once, for every task that uses them.

    Attributes:
        inputs: the rows, padded.
        tasks: each task's batch: these inputs with the task's labels.
    """

    inputs: Batch
    tasks: Mapping[str, Batch]


def separate(batches: Mapping[str, Batch]) -> list[SharedBatch]:
    """Batches of tasks that share no rows."""
    return [SharedBatch(batch, {task: batch}) for task, batch in batches.items()]


def by_task(batches: Sequence[SharedBatch]) -> dict[str, Batch]:
    """Each task's batch, in order."""
    return {task: batch for shared in batches for task, batch in shared.tasks.items()}


def label_tensor(labels: np.ndarray) -> Tensor:
    """Class ids int64 [N], or numbers float32 [N]; of several classes at once float32 [N, C]."""
    made = torch.from_numpy(labels)
    return made.float() if made.is_floating_point() else made


def collate(tokens: Tokens, index: np.ndarray, *, pad_id: int) -> Batch:
    """Rows ``index`` of a split, padded to the longest sequence among them.

    Without labels, but those that stand in the tokens.
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
    )
    if tokens.spans is not None:
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


def joined(batches: Sequence[Batch]) -> tuple[Tensor, Tensor, Tensor]:
    """(input ids, token types, mask) of several batches together, padded to the longest."""
    width = max(batch.input_ids.shape[1] for batch in batches)

    def stack(name: str, fill: int) -> Tensor:
        parts = [getattr(batch, name) for batch in batches]
        return torch.cat([pad(part, (0, width - part.shape[1]), value=fill) for part in parts])

    return (
        stack("input_ids", batches[0].pad_id),
        stack("token_type_ids", 0),
        stack("attention_mask", 0),
    )
