"""Which task is trained when (turns), and which of its rows (streams).

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
    lengths: np.ndarray, batch_size: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Row indices of one pass in batches of similar length; every row exactly once.

    Rows are shuffled, sorted by length inside windows of 50 batches (a quarter of a small set:
    one window would compose the same batches in every pass), cut into batches, and the batches
    are shuffled: the padding shrinks while each batch is composed anew in every pass. Rows that
    fill no batch form a smaller one, whatever their lengths.
    """
    order = rng.permutation(len(lengths))
    whole = len(order) // batch_size
    span = min(WINDOW, max(1, whole // 4)) * batch_size
    windows = np.split(order, [*range(span, whole * batch_size, span), whole * batch_size])
    batches = []
    for window in windows:
        window = window[np.argsort(lengths[window], kind="stable")]
        batches += [window[i : i + batch_size] for i in range(0, len(window), batch_size)]
    return [batches[i] for i in rng.permutation(len(batches))]


class TaskStream:
    """One task's endless stream of optimizer steps, reshuffled in every pass over its rows."""

    def __init__(
        self, name: str, lengths: np.ndarray, batch_size: int, accumulation: int, seed: int
    ) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.accumulation = accumulation
        self.seed = [seed, zlib.crc32(name.encode())]
        self.passes = 0
        self.position = 0
        self._batches = self._shuffle()

    @property
    def steps_per_pass(self) -> int:
        """Optimizer steps in one pass over the rows."""
        return math.ceil(math.ceil(len(self.lengths) / self.batch_size) / self.accumulation)

    def next(self) -> list[np.ndarray]:
        """The row indices of the next optimizer step, one array a forward pass."""
        if self.position == len(self._batches):
            self.passes, self.position = self.passes + 1, 0
            self._batches = self._shuffle()
        step = self._batches[self.position : self.position + self.accumulation]
        self.position += len(step)
        return step

    def _shuffle(self) -> list[np.ndarray]:
        rng = np.random.default_rng([*self.seed, self.passes])
        return length_grouped_batches(self.lengths, self.batch_size, rng)

    def state_dict(self) -> dict[str, int]:
        return {"passes": self.passes, "position": self.position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.passes, self.position = state["passes"], state["position"]
        self._batches = self._shuffle()


class RoundRobin:
    """Each task in turn until the longest one is through; the shorter ones start again.

    CS224N mini-BERT paper, section 4.1 (oversampling of the smaller data sets).

    Args:
        steps: optimizer steps of one pass, by task.
    """

    def __init__(self, steps: Mapping[str, int]) -> None:
        self.tasks = list(steps)
        self.rounds = max(steps.values())

    @property
    def steps_per_epoch(self) -> int:
        return self.rounds * len(self.tasks)

    def turns(self, epoch: int) -> list[str]:
        """The task of every optimizer step of an epoch (0-based), in order."""
        return self.tasks * self.rounds
