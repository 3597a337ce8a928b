"""Padded tensors from token ids: rows in, one batch out."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multitask.data.tokenize import Tokens


@dataclass
class Batch:
    """B rows of one task.

    ``input_ids``, ``attention_mask`` and ``token_type_ids`` are int64 [S, T] with S = 2B for
    siamese pairs (all first sentences, then all second ones) and S = B otherwise.
    """

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor
    labels: Tensor | None
    sides: int

    @property
    def rows(self) -> int:
        return len(self.input_ids) // self.sides

    def to(self, device: torch.device) -> "Batch":
        return Batch(
            self.input_ids.to(device),
            self.attention_mask.to(device),
            self.token_type_ids.to(device),
            None if self.labels is None else self.labels.to(device),
            self.sides,
        )


def collate(tokens: Tokens, labels: np.ndarray | None, index: np.ndarray, *, pad_id: int) -> Batch:
    """Rows ``index`` of a split, padded to the longest sequence among them."""
    numbers = np.concatenate([side * len(tokens) + index for side in range(tokens.sides)])
    lengths = tokens.offsets[numbers + 1] - tokens.offsets[numbers]
    shape = (len(numbers), int(lengths.max()))
    input_ids = np.full(shape, pad_id, dtype=np.int64)
    token_types = np.zeros(shape, dtype=np.int64)
    for row, number in enumerate(numbers):
        ids, types = tokens.sequence(number)
        input_ids[row, : len(ids)] = ids
        token_types[row, : len(types)] = types
    mask = (np.arange(shape[1]) < lengths[:, None]).astype(np.int64)
    chosen = None
    if labels is not None:
        chosen = torch.from_numpy(labels[index])
        chosen = chosen.float() if chosen.is_floating_point() else chosen
    return Batch(
        torch.from_numpy(input_ids),
        torch.from_numpy(mask),
        torch.from_numpy(token_types),
        chosen,
        tokens.sides,
    )
