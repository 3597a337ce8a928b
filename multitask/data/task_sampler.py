"""Task samplers: which tasks train in each step of an epoch.

The turns depend only on the seed and the epoch, so a resumed run takes the same turns. The number
of steps per epoch is fixed before training, because the learning-rate schedule depends on it.

To add a sampler, subclass ``Shares`` and define ``weights``. A sampler of another kind, such as
``RoundRobin``, has ``steps_per_epoch``, ``needs_scores`` and ``turns``.
"""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Turn(NamedTuple):
    """The turn of one task in a step.

    Attributes:
        task: the name of the task, or of the stream of rows.
        taken: False if the sampler leaves the turn out.
    """

    task: str
    taken: bool = True


Step = tuple[Turn, ...]


@dataclass(frozen=True)
class Sizes:
    """The sizes of the training sets and of an epoch.

    Attributes:
        rows: the number of training rows, by task.
        steps: the number of optimizer steps in one pass over the rows, by task.
        epochs: the planned number of epochs.
        epoch: the length of an epoch: one pass of the task with the most steps ("longest"), one
            pass of the named task, or a number of turns.
        seed: the seed of the order of turns.
    """

    rows: Mapping[str, int]
    steps: Mapping[str, int]
    epochs: int = 1
    epoch: str | int = "longest"
    seed: int = 0

    @property
    def longest(self) -> str:
        """The task whose pass sets the length of an epoch."""
        if isinstance(self.epoch, str) and self.epoch != "longest":
            return self.epoch
        return max(self.steps, key=lambda task: self.steps[task])


class RoundRobin:
    """Each task in turn until the longest one is through; the shorter ones start again.

    CS224N mini-BERT paper, section 4.1: "oversampling on the train dataset when training set
    accuracy is still low for the relative smaller dataset".

    Args:
        sizes: the sizes of the training sets and of an epoch.
        joint: True if each step takes a batch of every task; else it trains one task.
        oversample: true: shorter tasks start again. false: an exhausted task drops out and the
            epoch goes on. ``{while_train_score_below: X}``: a task starts again while its running
            training score of the last epoch (by its metric) is below X; in the first epoch all do.

    Attributes:
        steps_per_epoch: optimizer steps, counting those whose turns are left out.
        needs_scores: True if ``turns`` reads the running training scores.
    """

    def __init__(
        self, sizes: Sizes, joint: bool, oversample: bool | dict[str, float] = True
    ) -> None:
        self.sizes = sizes
        self.joint = joint
        self.below = math.inf if oversample is True else -math.inf
        if isinstance(oversample, dict):
            if list(oversample) != ["while_train_score_below"]:
                raise ValueError("oversample must be true, false or {while_train_score_below: X}")
            self.below = oversample["while_train_score_below"]
        self.needs_scores = isinstance(oversample, dict)
        if oversample is not True and sizes.epoch != "longest":
            raise ValueError("an `oversample` other than true needs `epoch: longest`")
        self.drops_out = oversample is False and not joint
        if self.drops_out:
            self.steps_per_epoch = sum(sizes.steps.values())
        elif isinstance(sizes.epoch, int):
            self.steps_per_epoch = sizes.epoch
        else:
            self.steps_per_epoch = sizes.steps[sizes.longest] * (1 if joint else len(sizes.steps))

    def turns(self, epoch: int, scores: Mapping[str, float] | None = None) -> list[Step]:
        """Return every optimizer step of an epoch (0-based), in order.

        ``scores`` has the training scores of the last epoch by task. A score that is unknown or NaN
        is below any bound.
        """
        last = scores or {}
        again = {task: not last.get(task, -math.inf) >= self.below for task in self.sizes.steps}
        tasks = list(self.sizes.steps)
        steps: list[Step] = []
        place = 0
        if isinstance(self.sizes.epoch, int) and not self.joint:
            # an epoch of a number of turns continues where the last one ended
            place = epoch * self.steps_per_epoch % len(tasks)
        while len(steps) < self.steps_per_epoch:
            number, position = divmod(place, len(tasks))
            chosen = tasks if self.joint else tasks[position : position + 1]
            taken = [Turn(t, again[t] or number < self.sizes.steps[t]) for t in chosen]
            place += len(chosen)
            if self.drops_out and not taken[0].taken:
                continue
            steps.append(tuple(taken))
        return steps


class Shares:
    """Base of the weighted samplers: each task gets its share of the steps, in random order.

    The number of steps per task is exact, only their order is random: a share of 10 % of 100 steps
    is 10 steps. If a share is not an integer number of steps, it is rounded up in some epochs and
    down in others. So a task with less than one step per epoch has a turn in some epochs.
    """

    needs_scores = False

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        if isinstance(sizes.epoch, int):
            self.steps_per_epoch = sizes.epoch
        else:  # until one pass of the longest task
            longest = sizes.longest
            self.steps_per_epoch = math.ceil(sizes.steps[longest] / self.shares(0)[longest] - 1e-9)

    def weights(self, epoch: int) -> Mapping[str, float]:
        """Return each task's weight in an epoch."""
        raise NotImplementedError

    def shares(self, epoch: int) -> dict[str, float]:
        """Return each task's share of an epoch's steps; the shares sum to 1."""
        weights = self.weights(epoch)
        total = math.fsum(weights.values())
        return {task: weight / total for task, weight in weights.items()}

    def turns(self, epoch: int, scores: Mapping[str, float] | None = None) -> list[Step]:
        """Return every optimizer step of an epoch (0-based), in order."""
        shares = self.shares(epoch)
        ends = np.cumsum(list(shares.values())) * self.steps_per_epoch
        ends[-1] = self.steps_per_epoch
        # Lay the shares end to end. A task gets one step for each point "integer - offset" in its
        # share. The offset moves by the golden ratio, so over many epochs each task gets its share.
        offset = (0.5 + epoch * (math.sqrt(5) - 1) / 2) % 1
        counts = np.diff(np.floor(ends + offset + 1e-9).astype(int), prepend=0)
        order = np.repeat(np.arange(len(counts)), counts)
        np.random.default_rng([self.sizes.seed, zlib.crc32(b"turns"), epoch]).shuffle(order)
        tasks = list(shares)
        return [(Turn(tasks[i]),) for i in order]


def powers(rows: Mapping[str, int], exponent: float) -> dict[str, float]:
    """Return (N / largest N)^exponent for every task."""
    largest = max(rows.values())
    return {task: (count / largest) ** exponent for task, count in rows.items()}


class Proportional(Shares):
    """Share proportional to the task's rows."""

    def weights(self, epoch: int) -> Mapping[str, float]:
        return powers(self.sizes.rows, 1.0)


class SquareRoot(Shares):
    """Share proportional to the square root of the task's rows (PALs, section 4.1)."""

    def weights(self, epoch: int) -> Mapping[str, float]:
        return powers(self.sizes.rows, 0.5)


class Annealed(Shares):
    """Share proportional to N^a, a = 1 - 0.8 (e - 1) / (E - 1) in epoch e of E (PALs, 4.1).

    With a single epoch a is 1. All epochs have the length of the first.
    """

    def weights(self, epoch: int) -> Mapping[str, float]:
        progress = epoch / (self.sizes.epochs - 1) if self.sizes.epochs > 1 else 0.0
        return powers(self.sizes.rows, 1.0 - 0.8 * progress)


class Temperature(Shares):
    """Share proportional to N^(1/T) (as in jiant and T5).

    Args:
        sizes: the sizes of the training sets and of an epoch.
        temperature: T; 1 is proportional, 2 the square root, a large one uniform.
    """

    def __init__(self, sizes: Sizes, temperature: float = 2.0) -> None:
        if not temperature > 0:
            raise ValueError("temperature must be above 0")
        self.temperature = temperature
        super().__init__(sizes)

    def weights(self, epoch: int) -> Mapping[str, float]:
        return powers(self.sizes.rows, 1 / self.temperature)


class Fixed(Shares):
    """Shares as given.

    Args:
        sizes: the sizes of the training sets and of an epoch.
        weights: a number above 0 for every trained task; they are scaled to sum to 1.
    """

    def __init__(self, sizes: Sizes, weights: dict[str, float]) -> None:
        if set(weights) != set(sizes.rows) or not all(0 < w < math.inf for w in weights.values()):
            expected = ", ".join(sizes.rows)
            raise ValueError(f"weights must give a number above 0 to each of {expected}")
        self._weights = weights
        super().__init__(sizes)

    def weights(self, epoch: int) -> Mapping[str, float]:
        return {task: self._weights[task] for task in self.sizes.rows}
