"""Per-task patience, and which step was best for each task and for all together."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from multitask.config.run_directory import JOINT
from multitask.tasks.metrics import improves


@dataclass
class Best:
    """The best value so far, the step it was reached at, and the evaluations since a gain."""

    value: float | None = None
    step: int | None = None
    waited: int = 0


@dataclass
class Selection:
    """Early stopping per task, and the best step per task and jointly.

    ``patience`` (evaluations; None: never stops) and ``min_delta`` are given by task. NaN never
    improves anything and counts as an evaluation without gain. A stopped task is still evaluated,
    since the shared encoder moves on, and may still reach a new best.
    """

    patience: Mapping[str, int | None]
    min_delta: Mapping[str, float]
    best: dict[str, Best] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)
    # patience compares with the last gain of at least min_delta, `best` keeps every maximum
    reference: dict[str, float | None] = field(default_factory=dict)
    latest: int = 0
    # where tasks stopped that no later stage has trained
    last_stops: dict[str, int] = field(default_factory=dict)

    def begin_anew(self, tasks: Collection[str]) -> None:
        """A new stage of ``tasks``: all start again, patience counts from zero; bests stay."""
        self.last_stops = {t: at for t, at in self.last_stops.items() if t not in tasks}
        self.stopped, self.reference = {}, {}
        for best in self.best.values():
            best.waited = 0

    def update(
        self, step: int, values: Mapping[str, float], joint: float, training: Collection[str]
    ) -> list[str]:
        """Take one evaluation's values; returns those of the ``training`` tasks that stop now."""
        self.latest = step
        self._keep(JOINT, step, joint)
        now = []
        for task, value in values.items():
            best = self._keep(task, step, value)
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

    def _keep(self, name: str, step: int, value: float) -> Best:
        best = self.best.setdefault(name, Best())
        if improves(value, best.value):
            best.value, best.step = value, step
        return best

    def best_steps(self) -> dict[str, int]:
        """The best step of every task and of ``joint``; the latest one while all were NaN."""
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
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best = {name: Best(*values) for name, values in state["best"].items()}
        self.stopped, self.last_stops = dict(state["stopped"]), dict(state["last_stops"])
        self.reference = dict(state["reference"])
        self.latest = state["latest"]
