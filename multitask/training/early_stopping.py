"""Early stopping per task, and the best step of each task and of all together."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from multitask.config.run_directory import JOINT
from multitask.tasks.metrics import improves, mean_of_defined


@dataclass
class Best:
    """The best value of a task so far.

    Attributes:
        value: the value; None before the first one that is a number.
        step: the step that reached it.
        waited: evaluations since the last gain.
    """

    value: float | None = None
    step: int | None = None
    waited: int = 0


@dataclass
class Selection:
    """Stops each task that no longer improves, and remembers the best steps.

    NaN never improves anything and counts as an evaluation without gain. A stopped task is still
    evaluated, since the shared encoder moves on, and may still reach a new best.

    The best step of all tasks together is one at which as many of them as possible have a score;
    among these it is the one with the best mean over the tasks that have one. A mean over fewer
    tasks is never compared with one over more.

    Attributes:
        patience: evaluations without gain after which a task stops; None: it never stops.
        min_delta: what counts as a gain, by task.
        best: the best value of each task and of ``joint``, however small the gain was.
        stopped: the step at which each stopped task of this stage stopped.
        reference: each task's value at its last gain of ``min_delta``; patience counts from there.
        latest: the step of the latest evaluation.
        last_stops: the step at which a task stopped, if no later stage has trained it.
        defined: how many tasks had a score at the best step of all together.
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
        """Begin a stage of ``tasks``: all start again, patience counts from zero; bests stay."""
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
        """Take the values of an evaluation; return the ``training`` tasks that stop now.

        ``together`` has the values of the tasks whose mean selects.
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
            known = self.best.get(JOINT, Best())
            self.defined = 0 if known.value is None else len(together)
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
        """Return the best step of each task and of ``joint``; the latest one if all were NaN."""
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
