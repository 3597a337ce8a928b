"""Which rows a task trains on next: shuffled, length-grouped batches, pass after pass.

Everything is a function of the seed and of two counters, so that a checkpoint holds little and a
resumed run sees the same batches.
"""

import math
import zlib
from collections.abc import Mapping

import numpy as np

# batches that are sorted by length together: wide enough to save padding, small against a pass
WINDOW = 50


def length_grouped_batches(
    lengths: np.ndarray,
    batch_size: int,
    rng: np.random.Generator,
    batch_tokens: int | None = None,
    window: int = WINDOW,
) -> list[np.ndarray]:
    """Row indices of one pass in batches of similar length; every row exactly once.

    Rows are shuffled, sorted by length inside windows of 50 batches (a quarter of a small set:
    one window would compose the same batches in every pass), cut into batches, and the batches
    are shuffled: the padding shrinks while each batch is composed anew in every pass. Rows that
    fill no batch form a smaller one, whatever their lengths. A batch of more than ``batch_tokens``
    tokens, padding included, is cut into smaller ones; a row that is longer stands alone. With a
    ``window`` of one batch its rows are drawn whatever their lengths.
    """
    order = rng.permutation(len(lengths))
    whole = len(order) // batch_size
    span = min(window, max(1, whole // 4)) * batch_size
    windows = np.split(order, [*range(span, whole * batch_size, span), whole * batch_size])
    batches = []
    for rows in windows:
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        for start in range(0, len(rows), batch_size):
            batches += _cut(rows[start : start + batch_size], lengths, batch_tokens)
    return [batches[i] for i in rng.permutation(len(batches))]


def _cut(rows: np.ndarray, lengths: np.ndarray, batch_tokens: int | None) -> list[np.ndarray]:
    """Rows in order of length, cut so that rows x longest stays within ``batch_tokens``."""
    if batch_tokens is None:
        return [rows]
    parts, start = [], 0
    for end in range(1, len(rows)):
        if (end + 1 - start) * lengths[rows[end]] > batch_tokens:
            parts.append(rows[start:end])
            start = end
    return [*parts, rows[start:]]


class TaskStream:
    """One task's endless stream of optimizer steps, reshuffled in every pass over its rows.

    Args:
        name: the task's name; each has an order of its own.
        lengths: tokens of every row [N].
        batch_size: rows a forward pass.
        accumulation: forward passes an optimizer step; a step never mixes two passes.
        seed: of the shuffles.
        batch_tokens: tokens a forward pass at most, padding included.
        window: batches that are sorted by length together; 1 groups none.

    Attributes:
        steps_per_pass: optimizer steps in one pass over the rows; with ``batch_tokens`` those of
            the first pass, as later ones may differ by a few.
    """

    def __init__(
        self,
        name: str,
        lengths: np.ndarray,
        batch_size: int,
        accumulation: int,
        seed: int,
        batch_tokens: int | None = None,
        window: int = WINDOW,
    ) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.batch_tokens = batch_tokens
        self.window = window
        self.accumulation = accumulation
        self.seed = [seed, zlib.crc32(name.encode())]
        self.passes = 0
        self.position = 0
        self._batches = self._shuffle()
        self.steps_per_pass = math.ceil(len(self._batches) / accumulation)

    def next(self) -> list[np.ndarray]:
        """The row indices of the next optimizer step, one array a forward pass."""
        if self.position == len(self._batches):
            self.passes, self.position = self.passes + 1, 0
            self._batches = self._shuffle()
        step = self._batches[self.position : self.position + self.accumulation]
        self.position += len(step)
        return step

    def fitting(self, rows: np.ndarray) -> int:
        """How many of these rows, the first ones, go through in one forward pass; at least one."""
        if self.batch_tokens is None:
            return len(rows)
        widths = np.maximum.accumulate(self.lengths[rows])
        return max(1, int((widths * np.arange(1, len(rows) + 1) <= self.batch_tokens).sum()))

    def _shuffle(self) -> list[np.ndarray]:
        rng = np.random.default_rng([*self.seed, self.passes])
        return length_grouped_batches(
            self.lengths,
            self.batch_size,
            rng,
            batch_tokens=self.batch_tokens,
            window=self.window,
        )

    def state_dict(self) -> dict[str, int]:
        return {"passes": self.passes, "position": self.position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.passes, self.position = state["passes"], state["position"]
        self._batches = self._shuffle()
