"""Padding-free batches: the real tokens of all sequences as rows [N, d], shortest sequence first.

Matrix products, LayerNorms and activations work on these rows. Attention groups neighbours of
similar length (``Group``) and pads them to the longest of the group, because a kernel call per
sequence costs more than a few pads. On real batches a forward pass is about three times as fast as
with padding to the longest sequence, in fp32 on two cores: docs/measured/performance.md.

On a GPU a launch should cost more than the pads, so attention pads the whole batch (``Padded``).
All indices are computed on the host and sent in one transfer, so no pass waits for the GPU.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from multitask.utils.device import counts_launches, send

# a group takes the next longer sequence while it has at most STRETCH times the tokens of the
# group's shortest sequence plus SLACK (measured by benchmarks/attention.py)
STRETCH, SLACK = 1.3, 3
STORED = 16  # elements: CUDA's attention wants rows of the mask to begin at multiples of it


@dataclass(frozen=True)
class Group:
    """Neighbouring sequences of a packing.

    Attributes:
        rows: the sequences, as a slice of the packed order.
        tokens: their tokens, as a slice of the packed rows.
        max_seqlen: tokens of the longest sequence.
        slots: int64 [tokens], each token's index in [sequences * max_seqlen]; None without pads.
        mask: bool [sequences, 1, 1, max_seqlen], False for pads; None without pads.
    """

    rows: slice
    tokens: slice
    max_seqlen: int
    slots: Tensor | None
    mask: Tensor | None

    def pad(self, packed: Tensor) -> Tensor:
        """Pad the group's rows of [N, d] to [sequences, max_seqlen, d], zero at pads."""
        size = (self.rows.stop - self.rows.start, self.max_seqlen, packed.shape[1])
        rows = packed[self.tokens]
        if self.slots is None:
            return rows.unflatten(0, size[:2])
        return rows.new_zeros(size).flatten(0, 1).index_add(0, self.slots, rows).view(size)

    def unpad(self, padded: Tensor) -> Tensor:
        """Remove the pads: [sequences, max_seqlen, d] -> [tokens, d]."""
        rows = padded.flatten(0, 1)
        return rows if self.slots is None else rows.index_select(0, self.slots)


@dataclass(frozen=True)
class Padded:
    """All sequences of a packing in one group, padded to the longest, for a GPU.

    Attributes:
        count: the number of sequences B.
        max_seqlen: tokens of the longest sequence W.
        rows: int64 [B * W], the packed row of each place; row 0 for pads, which nobody reads.
        slots: int64 [N], each packed token's place in [B * W].
        pads: bool [B, W rounded up], True for pads.
        _biases: the masks that were made, by dtype.
    """

    count: int
    max_seqlen: int
    rows: Tensor
    slots: Tensor
    pads: Tensor
    _biases: dict[torch.dtype, Tensor] = field(default_factory=dict)

    def bias(self, dtype: torch.dtype) -> Tensor:
        """Return what attention adds to its scores, [B, 1, 1, W]: 0 for tokens, -inf for pads.

        It is made once per pass and dtype.
        """
        if dtype not in self._biases:
            made = torch.zeros_like(self.pads, dtype=dtype).masked_fill_(self.pads, -torch.inf)
            self._biases[dtype] = made[:, None, None, : self.max_seqlen]
        return self._biases[dtype]


class Packing:
    """The indices of the real tokens of a padded batch [B, T], made once per batch.

    Args:
        mask: [B, T], non-zero for tokens. Pads may be anywhere; no row may be all pads.
        lengths: the tokens of each sequence, int64 [B] on the host, if all pads are at the end.
            Then nobody waits for the mask of a GPU.

    Attributes:
        seqlens: int64 [B] on the host, ascending.
        slots: int64 [N], each packed token's index in [B * T].
        positions: int64 [N], its position in its sequence, from 0.
        first: int64 [B], the packed row of each sequence's first token, shortest sequence first.
    """

    def __init__(self, mask: Tensor, lengths: np.ndarray | None = None) -> None:
        self.shape, self._device = mask.shape, mask.device
        width = mask.shape[1]
        if lengths is None:
            inside = (mask != 0).cpu().numpy()
        else:
            inside = np.arange(width) < lengths[:, None]
        lengths = inside.sum(1)
        if not lengths.all():
            raise ValueError("a sequence without tokens")
        order = lengths.argsort(kind="stable")
        self.seqlens = lengths[order]
        rows, columns = inside[order].nonzero()
        first = self.seqlens.cumsum() - self.seqlens
        self._rows, self._positions = rows, np.arange(len(columns)) - first[rows]
        slots = order[rows] * width + columns
        arrays = [slots, self._positions, first, order]
        if counts_launches(mask.device):
            arrays += self._places()
        self.slots, self.positions, self.first, self._order, *sent = send(arrays, mask.device)
        self._sent = sent

    @cached_property
    def cu_seqlens(self) -> Tensor:
        """int64 [B + 1]: ``first``, then N."""
        (made,) = send([np.append(0, self.seqlens.cumsum())], self._device)
        return made

    @property
    def squares(self) -> int:
        """The sum of the squared lengths."""
        return int(np.square(self.seqlens).sum())

    @cached_property
    def groups(self) -> list[Group]:
        """Neighbours of similar length, in order, for attention on a CPU."""
        return list(_groups(self.seqlens, self._device))

    @cached_property
    def padded(self) -> Padded:
        """All sequences in one group, for attention on a GPU."""
        rows, slots, pads = self._sent or send(self._places(), self._device)
        return Padded(len(self.seqlens), int(self.seqlens[-1]), rows, slots, pads != 0)

    def _places(self) -> list[np.ndarray]:
        """Compute ``rows``, ``slots`` and ``pads`` of ``padded``, all int64."""
        count, width = len(self.seqlens), int(self.seqlens[-1])
        slots = self._rows * width + self._positions
        rows = np.zeros(count * width, dtype=np.int64)
        rows[slots] = np.arange(len(slots))
        pads = np.arange(-(-width // STORED) * STORED) >= self.seqlens[:, None]
        return [rows, slots, pads.astype(np.int64)]

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


def _groups(lengths: np.ndarray, device: torch.device) -> Iterator[Group]:
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
        slots = mask = None
        if sizes[start] < width:
            inside = np.arange(width) < lengths[start:stop, None]
            slots = torch.from_numpy(np.flatnonzero(inside)).to(device)
            mask = torch.from_numpy(inside)[:, None, None].to(device)
        yield Group(slice(start, stop), slice(token, token + count), width, slots, mask)
        token += count
