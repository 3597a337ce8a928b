"""Select the weights of a run: the best step of each task and of the joint mean."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multitask.store.saved import JOINT
from multitask.tasks.metrics import improves, mean_of_defined
from multitask.training.early_stopping import EarlyStopping


@dataclass
class Best:
    """The best value of a task so far.

    Attributes:
        value: the value; None until a value is a number.
        step: the step that reached it.
    """

    value: float | None = None
    step: int | None = None


@dataclass
class Selection:
    """Remembers the best steps. ``training.select`` then chooses among them.

    NaN is never an improvement. A stopped task can still reach a new best.

    The best joint step is chosen in two steps. First, as many tasks as possible must have a score.
    Second, the mean over these tasks must be the highest. A mean over fewer tasks is never
    compared with a mean over more tasks.

    Attributes:
        early_stopping: stops tasks on the same evaluations; its state is saved with the best steps.
        best: the best value of each task and of ``joint``, however small the gain was.
        latest: the step of the latest evaluation.
        defined: the number of tasks with a score at the best joint step.
    """

    early_stopping: EarlyStopping
    best: dict[str, Best] = field(default_factory=dict)
    latest: int = 0
    defined: int = 0

    def update(self, step: int, values: Mapping[str, float], together: Mapping[str, float]) -> None:
        """Record the values of an evaluation.

        ``together`` has the values of the tasks whose mean selects the joint best step.
        """
        self.latest = step
        self._improve_joint(step, together)
        for task, value in values.items():
            self._improve(task, step, value)

    def _improve_joint(self, step: int, together: Mapping[str, float]) -> None:
        defined = sum(not math.isnan(value) for value in together.values())
        if defined > self.defined:
            self.best[JOINT] = Best()
            self.defined = defined
        if defined == self.defined:
            self._improve(JOINT, step, mean_of_defined(together))

    def _improve(self, name: str, step: int, value: float) -> None:
        best = self.best.setdefault(name, Best())
        if improves(value, best.value):
            best.value, best.step = value, step

    def best_steps(self) -> dict[str, int]:
        """Return the best step of each task and of ``joint``; the latest if all values were NaN."""
        return {
            name: self.latest if best.step is None else best.step
            for name, best in self.best.items()
        }

    def state_dict(self) -> dict[str, object]:
        stopping = self.early_stopping
        return {
            "best": {n: [b.value, b.step, stopping.waited.get(n, 0)] for n, b in self.best.items()},
            "stopped": dict(stopping.stopped),
            "last_stops": dict(stopping.last_stops),
            "reference": dict(stopping.reference),
            "latest": self.latest,
            "defined": self.defined,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        stopping = self.early_stopping
        self.best = {name: Best(value, step) for name, (value, step, _) in state["best"].items()}
        stopping.waited = {name: waited for name, (_, _, waited) in state["best"].items()}
        stopping.stopped, stopping.last_stops = dict(state["stopped"]), dict(state["last_stops"])
        stopping.reference = dict(state["reference"])
        self.latest = state["latest"]
        self.defined = state["defined"]
