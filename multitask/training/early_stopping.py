# Tested by tests/training/test_weight_selection.py
"""Early stopping: a task stops after ``patience`` evaluations without a gain."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from multitask.tasks.metrics import improves


@dataclass
class EarlyStopping:
    """Stops each task that no longer improves.

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
