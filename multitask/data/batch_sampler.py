"""The batch sampler of a task: shuffled batches of similar length, pass after pass.

The batches depend only on the seed and two counters. So a checkpoint only saves the counters, and
a resumed run sees the same batches.
"""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# number of batches that are sorted by length together: large enough to save padding, small
# compared with a pass
WINDOW = 50


def length_grouped_batches(
    lengths: np.ndarray,
    batch_size: int,
    rng: np.random.Generator,
    batch_tokens: int | None = None,
    window: int = WINDOW,
) -> list[np.ndarray]:
    """Return the row indices of one pass, in batches of similar length; each row occurs once.

    1. Shuffle the rows.
    2. Sort them by length inside windows of 50 batches. A small set has four windows: a single one
       would give the same batches in every pass.
    3. Cut the windows into batches, and shuffle the batches.

    So there is little padding, and every pass has new batches. Rows that are left over form a
    smaller batch, whatever their lengths. A batch of more than ``batch_tokens`` tokens, including
    padding, is cut into smaller ones; a longer row gets a batch of one. With ``window`` 1, batches
    are not grouped by length.
    """
    order = rng.permutation(len(lengths))
    full = len(order) // batch_size
    span = min(window, max(1, full // 4)) * batch_size
    windows = np.split(order, [*range(span, full * batch_size, span), full * batch_size])
    batches = []
    for rows in windows:
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        for start in range(0, len(rows), batch_size):
            batches += _cut(rows[start : start + batch_size], lengths, batch_tokens)
    return [batches[i] for i in rng.permutation(len(batches))]


def _cut(rows: np.ndarray, lengths: np.ndarray, batch_tokens: int | None) -> list[np.ndarray]:
    """Cut rows in order of length, so that rows x longest is at most ``batch_tokens``."""
    if batch_tokens is None:
        return [rows]
    parts, start = [], 0
    for end in range(1, len(rows)):
        if (end + 1 - start) * lengths[rows[end]] > batch_tokens:
            parts.append(rows[start:end])
            start = end
    return [*parts, rows[start:]]


@dataclass
class TaskStream:
    """One task's endless stream of optimizer steps, reshuffled in every pass over its rows.

    Attributes:
        name: the task's name; the order of rows depends on it.
        lengths: the number of tokens of each row [N].
        batch_size: rows per forward pass.
        accumulation: forward passes per optimizer step. A step never mixes two passes over the
            rows.
        seed: the seed of the shuffles.
        batch_tokens: the largest number of tokens per forward pass, including padding.
        window: the number of batches that are sorted by length together; 1: no grouping.
        seeds: the seed and a number for the name.
        steps_per_pass: optimizer steps in one pass over the rows. With ``batch_tokens``, those of
            the first pass; later passes may differ by a few.
    """

    name: str
    lengths: np.ndarray
    batch_size: int
    accumulation: int
    seed: int
    batch_tokens: int | None = None
    window: int = WINDOW

    def __post_init__(self) -> None:
        self.seeds = [self.seed, zlib.crc32(self.name.encode())]
        self.passes = self.position = 0
        self._batches = self._shuffle()
        self.steps_per_pass = math.ceil(len(self._batches) / self.accumulation)

    def next(self) -> list[np.ndarray]:
        """Return the row indices of the next optimizer step, one array per forward pass."""
        if self.position == len(self._batches):
            self.passes, self.position = self.passes + 1, 0
            self._batches = self._shuffle()
        step = self._batches[self.position : self.position + self.accumulation]
        self.position += len(step)
        return step

    def fitting(self, rows: np.ndarray) -> int:
        """Return how many of the first of these rows fit into one forward pass; at least one."""
        if self.batch_tokens is None:
            return len(rows)
        widths = np.maximum.accumulate(self.lengths[rows])
        return max(1, int((widths * np.arange(1, len(rows) + 1) <= self.batch_tokens).sum()))

    def _shuffle(self) -> list[np.ndarray]:
        rng = np.random.default_rng([*self.seeds, self.passes])
        return length_grouped_batches(
            self.lengths, self.batch_size, rng, self.batch_tokens, window=self.window
        )

    def state_dict(self) -> dict[str, int]:
        return {"passes": self.passes, "position": self.position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.passes, self.position = state["passes"], state["position"]
        self._batches = self._shuffle()
