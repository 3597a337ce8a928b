"""Padding-free batches: the real tokens of all sequences as rows [N, d], shortest sequence first.

Matrix products, LayerNorms and activations work on these rows. Attention groups neighbours of
similar length (``Group``) and pads them to the longest of the group, because a kernel call per
sequence costs more than a few pads. On real batches a forward pass is about three times as fast as
with padding to the longest sequence, in fp32 on two cores: docs/performance.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor, nn

# a group takes the next longer sequence while it has at most STRETCH times the tokens of the
# group's shortest sequence plus SLACK (measured by benchmarks/attention.py)
STRETCH, SLACK = 1.3, 3


@dataclass(frozen=True)
class Group:
    """Neighbouring sequences of a packing.

    Attributes:
        rows: the sequences, as a slice of the packed order.
        tokens: their tokens, as a slice of the packed rows.
        width: tokens of the longest sequence.
        slots: int64 [tokens], each token's index in [sequences * width]; None without pads.
        mask: bool [sequences, 1, 1, width], False for pads; None without pads.
    """

    rows: slice
    tokens: slice
    width: int
    slots: Tensor | None
    mask: Tensor | None

    def pad(self, packed: Tensor) -> Tensor:
        """Pad the group's rows of [N, d] to [sequences, width, d], zero at pads."""
        size = (self.rows.stop - self.rows.start, self.width, packed.shape[1])
        rows = packed[self.tokens]
        if self.slots is None:
            return rows.unflatten(0, size[:2])
        return rows.new_zeros(size).flatten(0, 1).index_add(0, self.slots, rows).view(size)

    def unpad(self, padded: Tensor) -> Tensor:
        """Remove the pads: [sequences, width, d] -> [tokens, d]."""
        rows = padded.flatten(0, 1)
        return rows if self.slots is None else rows.index_select(0, self.slots)


class Packing:
    """The indices of the real tokens of a padded batch [B, T], made once per batch.

    Args:
        mask: [B, T], non-zero for tokens. Pads may be anywhere; no row may be all pads.

    Attributes:
        slots: int64 [N], each packed token's index in [B * T].
        positions: int64 [N], its position in its sequence, from 0.
        first: int64 [B], the packed row of each sequence's first token, shortest sequence first.
    """

    def __init__(self, mask: Tensor) -> None:
        mask = mask != 0
        self.shape = mask.shape
        lengths = mask.sum(1)
        self._lengths, self._order = lengths.sort(stable=True)
        if not self._lengths.all():
            raise ValueError("a sequence without tokens")
        rows, columns = mask[self._order].nonzero(as_tuple=True)
        self.slots = self._order[rows] * mask.shape[1] + columns
        self.first = self._lengths.cumsum(0) - self._lengths
        self.positions = torch.arange(len(rows), device=mask.device) - self.first[rows]

    @cached_property
    def starts(self) -> Tensor:
        """int64 [B + 1]: ``first``, then N."""
        return nn.functional.pad(self._lengths.cumsum(0), (1, 0))

    @cached_property
    def shortest(self) -> int:
        """Tokens of the shortest sequence."""
        return int(self._lengths[0])

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return int(self._lengths[-1])

    @cached_property
    def squares(self) -> int:
        """The sum of the squared lengths."""
        return int(self._lengths.square().sum())

    @cached_property
    def groups(self) -> list[Group]:
        """Neighbours of similar length, in order, for attention."""
        return list(_groups(self._lengths))

    def pack(self, padded: Tensor) -> Tensor:
        """Select the real tokens: [B, T, d] (or [B, T]) -> [N, d] (or [N])."""
        return padded.flatten(0, 1).index_select(0, self.slots)

    def unpack(self, packed: Tensor) -> Tensor:
        """Put tokens back: [N, d] -> [B, T, d], zero at pads."""
        padded = packed.new_zeros(self.shape[0] * self.shape[1], packed.shape[1])
        return padded.index_add(0, self.slots, packed).view(*self.shape, -1)

    def in_batch_order(self, rows: Tensor) -> Tensor:
        """Reorder one row per sequence [B, d], shortest sequence first, to the batch's order."""
        return torch.zeros_like(rows).index_add(0, self._order, rows)


def _groups(lengths: Tensor) -> Iterator[Group]:
    """Yield neighbours of similar length; ``lengths`` int64 [B] ascending."""
    sizes = lengths.tolist()
    cuts, shortest = [0], sizes[0]
    for row, size in enumerate(sizes):
        if size > STRETCH * shortest + SLACK:
            cuts.append(row)
            shortest = size
    token = 0
    for start, stop in pairwise([*cuts, len(sizes)]):
        width, count = sizes[stop - 1], sum(sizes[start:stop])
        places = torch.arange(width, device=lengths.device) < lengths[start:stop, None]
        even = sizes[start] == width
        slots = None if even else places.flatten().nonzero().flatten()
        mask = None if even else places[:, None, None]
        yield Group(slice(start, stop), slice(token, token + count), width, slots, mask)
        token += count
