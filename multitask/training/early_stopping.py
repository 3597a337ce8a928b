"""Early stopping per task, and the best step of each task and of the joint mean."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from multitask.config.saved.run_files import JOINT
from multitask.tasks.metrics import improves, mean_of_defined


@dataclass
class Best:
    """The best value of a task so far.

    Attributes:
        value: the value; None until a value is a number.
        step: the step that reached it.
        waited: the number of evaluations since the last gain.
    """

    value: float | None = None
    step: int | None = None
    waited: int = 0


@dataclass
class Selection:
    """Stops each task that no longer improves, and remembers the best steps.

    NaN is never an improvement: it counts as an evaluation without a gain. A stopped task is still
    evaluated, because the shared encoder keeps changing. It can still reach a new best.

    The best joint step is chosen in two steps. First, as many tasks as possible must have a score.
    Second, the mean over these tasks must be the highest. A mean over fewer tasks is never
    compared with a mean over more tasks.

    Attributes:
        patience: by task, the evaluations without a gain after which it stops; None: never.
        min_delta: by task, the smallest improvement that counts as a gain.
        best: the best value of each task and of ``joint``, however small the gain was.
        stopped: the step at which each stopped task of this stage stopped.
        reference: each task's value at its last gain of ``min_delta``; patience counts from there.
        latest: the step of the latest evaluation.
        last_stops: the step at which a task stopped, unless a later stage trained it again.
        defined: the number of tasks with a score at the best joint step; None: not known, in a
            checkpoint of an older version.
    """

    patience: Mapping[str, int | None]
    min_delta: Mapping[str, float]
    best: dict[str, Best] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)
    reference: dict[str, float | None] = field(default_factory=dict)
    latest: int = 0
    last_stops: dict[str, int] = field(default_factory=dict)
    defined: int | None = 0

    def begin_anew(self, tasks: Collection[str]) -> None:
        """Start a stage that trains ``tasks``: reset stops and patience, keep the best values."""
        self.last_stops = {t: at for t, at in self.last_stops.items() if t not in tasks}
        self.stopped, self.reference = {}, {}
        for best in self.best.values():
            best.waited = 0

    def update(
        self,
        step: int,
        values: Mapping[str, float],
        together: Mapping[str, float],
        training: Collection[str],
    ) -> list[str]:
        """Record the values of an evaluation; return the ``training`` tasks that stop now.

        ``together`` has the values of the tasks whose mean selects the joint best step.
        """
        self.latest = step
        self._improve_joint(step, together)
        now = []
        for task, value in values.items():
            best = self._improve(task, step, value)
            if improves(value, self.reference.get(task), self.min_delta[task]):
                self.reference[task] = value
                best.waited = 0
            else:
                best.waited += 1
            patience = self.patience[task]
            waiting = task in training and task not in self.stopped
            if patience is not None and best.waited >= patience and waiting:
                self.stopped[task] = self.last_stops[task] = step
                now.append(task)
        return now

    def _improve_joint(self, step: int, together: Mapping[str, float]) -> None:
        defined = sum(not math.isnan(value) for value in together.values())
        if self.defined is None:  # an older checkpoint: a mean existed if all tasks had a score
            best = self.best.get(JOINT, Best())
            self.defined = 0 if best.value is None else len(together)
        if defined > self.defined:
            self.best[JOINT] = Best()
            self.defined = defined
        if defined == self.defined:
            self._improve(JOINT, step, mean_of_defined(together))

    def _improve(self, name: str, step: int, value: float) -> Best:
        best = self.best.setdefault(name, Best())
        if improves(value, best.value):
            best.value, best.step = value, step
        return best

    def best_steps(self) -> dict[str, int]:
        """Return the best step of each task and of ``joint``; the latest if all values were NaN."""
        return {
            name: self.latest if best.step is None else best.step
            for name, best in self.best.items()
        }

    def state_dict(self) -> dict[str, Any]:
        best = {name: [b.value, b.step, b.waited] for name, b in self.best.items()}
        return {
            "best": best,
            "stopped": dict(self.stopped),
            "last_stops": dict(self.last_stops),
            "reference": dict(self.reference),
            "latest": self.latest,
            "defined": self.defined,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best = {name: Best(*values) for name, values in state["best"].items()}
        self.stopped, self.last_stops = dict(state["stopped"]), dict(state["last_stops"])
        self.reference = dict(state["reference"])
        self.latest = state["latest"]
        self.defined = state.get("defined")
