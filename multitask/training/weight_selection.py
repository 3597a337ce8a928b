"""Select the weights of a run, the best step of each task and of the joint mean; stop early."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from multitask.store.saved import JOINT, LAST
from multitask.tasks.metrics import improves, mean_of_defined


@dataclass
class EarlyStopping:
    """Stops each task that no longer improves: after ``patience`` evaluations without a gain.

    NaN is never an improvement: it counts as an evaluation without a gain. A stopped task is still
    evaluated, because the shared encoder keeps changing.

    Attributes:
        patience: by task, the evaluations without a gain after which it stops; None: never.
        min_delta: by task, the smallest improvement that counts as a gain.
        reference: each task's value at its last gain of ``min_delta``; patience counts from there.
        waited: by task, the number of evaluations since the last gain.
        stopped: the step at which each stopped task of this stage stopped.
        last_stops: the step at which a task stopped, unless a later stage trained it again.
    """

    patience: Mapping[str, int | None]
    min_delta: Mapping[str, float]
    reference: dict[str, float | None] = field(default_factory=dict)
    waited: dict[str, int] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)
    last_stops: dict[str, int] = field(default_factory=dict)

    def begin_stage(self, tasks: Collection[str]) -> None:
        """Start a stage that trains ``tasks``: reset stops and patience."""
        self.last_stops = {t: at for t, at in self.last_stops.items() if t not in tasks}
        self.stopped, self.reference, self.waited = {}, {}, {}

    def update(
        self, step: int, values: Mapping[str, float], training: Collection[str]
    ) -> list[str]:
        """Record the values of an evaluation; return the ``training`` tasks that stop now."""
        stop_now = []
        for task, value in values.items():
            if improves(value, self.reference.get(task), self.min_delta[task]):
                self.reference[task] = value
                self.waited[task] = 0
            else:
                self.waited[task] = self.waited.get(task, 0) + 1
            patience = self.patience[task]
            may_stop = task in training and task not in self.stopped
            if patience is not None and self.waited[task] >= patience and may_stop:
                self.stopped[task] = self.last_stops[task] = step
                stop_now.append(task)
        return stop_now

    def state_dict(self) -> dict[str, dict[str, Any]]:
        names = ("reference", "waited", "stopped", "last_stops")
        return {name: dict(getattr(self, name)) for name in names}

    def load_state_dict(self, state: Mapping[str, dict[str, Any]]) -> None:
        for name, values in state.items():
            setattr(self, name, dict(values))


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
    """Remembers the best steps. ``training.select`` then chooses among them, or takes the last.

    NaN is never an improvement. A stopped task can still reach a new best.

    The best joint step is chosen in two steps. First, as many tasks as possible must have a score.
    Second, the mean over these tasks must be the highest. A mean over fewer tasks is never
    compared with a mean over more tasks.

    Attributes:
        early_stopping: stops tasks on the same evaluations; its state is saved with the best steps.
        select: ``training.select``; with `last` each evaluation counts as the best so far.
        best: the best value of each task and of ``joint``, however small the gain was.
        latest: the step of the latest evaluation.
        defined: the number of tasks with a score at the best joint step.
    """

    early_stopping: EarlyStopping
    select: str = JOINT
    best: dict[str, Best] = field(default_factory=dict)
    latest: int = 0
    defined: int = 0

    def update(self, step: int, values: Mapping[str, float], together: Mapping[str, float]) -> None:
        """Record the values of an evaluation.

        ``together`` has the values of the tasks whose mean selects the joint best step.
        """
        self.latest = step
        defined = sum(not math.isnan(value) for value in together.values())
        if defined > self.defined:
            self.best[JOINT] = Best()
            self.defined = defined
        joint = {JOINT: mean_of_defined(together)} if defined == self.defined else {}
        for name, value in {**joint, **values}.items():
            best = self.best.setdefault(name, Best())
            if improves(value, best.value):
                best.value, best.step = value, step

    def best_steps(self) -> dict[str, int]:
        """Return the best step of each task and of ``joint``.

        It is the latest evaluated step if all values were NaN, or with `select: last`.
        """
        return {
            name: self.latest if best.step is None or self.select == LAST else best.step
            for name, best in self.best.items()
        }

    def state_dict(self) -> dict[str, object]:
        return {
            "best": {name: [best.value, best.step] for name, best in self.best.items()},
            "early_stopping": self.early_stopping.state_dict(),
            "latest": self.latest,
            "defined": self.defined,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best = {name: Best(value, step) for name, (value, step) in state["best"].items()}
        self.early_stopping.load_state_dict(state["early_stopping"])
        self.latest, self.defined = state["latest"], state["defined"]
