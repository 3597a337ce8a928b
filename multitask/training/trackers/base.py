"""Copy a run's log, config and report to the trackers that the config names.

``multitask.config.registry.TRACKERS`` maps a tracker's name to its class, a ``Tracker``. A tracker
that fails is closed with one warning; the training goes on.
"""

import importlib.util
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from multitask.config import Config
from multitask.config.registry import TRACKERS, imported
from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import Event, parse_event
from multitask.store.saved import RunReport
from multitask.training.callbacks import Callback, Evaluation
from multitask.training.loss import TERMS
from multitask.training.step import Stepped
from multitask.utils import distributed
from multitask.utils.errors import reason_of, warn
from multitask.utils.names import SWEEP_VARIABLE
from multitask.utils.optional import install_command

if TYPE_CHECKING:
    from multitask.training.trainer import Trainer

PROJECT = "multitask"  # if no variable of the tracker names another one
PAUSE = 1.0  # seconds between two looks at the log, as a tracker may write to disk each time


class Row(NamedTuple):
    """The values of one step."""

    step: int  # optimizer steps taken
    values: dict[str, float]  # by tag, such as ``train/loss/sst``


@dataclass(frozen=True)
class TrackedRun:
    """The facts about a run that a tracker gets.

    Attributes:
        directory: the run's directory.
        name: the name to show; it need not be unique.
        config: the resolved config, as a nested mapping.
        sweep: the name of the sweep that the run belongs to; None for a single run.
    """

    directory: RunDirectory
    name: str
    config: Mapping[str, Any]
    sweep: str | None


class Tracker:
    """Base class of a connection to a tracker. Its methods may raise any exception."""

    modules: ClassVar[tuple[str, ...]]  # what it imports
    extra: ClassVar[str] = "trackers"  # the extra of pyproject.toml that has them

    def start(self, run: TrackedRun, run_id: str | None) -> str | None:
        """Begin a run, or continue the one with this id. Return its id; None if it needs none."""
        raise NotImplementedError

    def sent(self) -> set[tuple[str, int]]:
        """Return the (tag, step) pairs that the tracker has already; they are not sent again."""
        return set()

    def log(self, rows: Sequence[Row]) -> None:
        """Send values. Steps never decrease; a step may come again with other tags."""
        raise NotImplementedError

    def report(self, row: Row) -> None:
        """Send the scores of the report, at the last step."""
        self.log([row])

    def close(self, finished: bool) -> None:
        """End the session. ``finished`` is False if the run can be resumed."""
        raise NotImplementedError


def tracker_names(config: Config) -> list[str]:
    """Return the names of the trackers of a run, each once."""
    settings = config.training
    named = ["tensorboard", *settings.trackers] if settings.tensorboard else settings.trackers
    return list(dict.fromkeys(named))


def check_installed(config: Config) -> None:
    """Raise UserError if the config names a tracker whose package is not installed."""
    for name in tracker_names(config):
        tracker = imported(TRACKERS[name])
        if any(importlib.util.find_spec(module) is None for module in tracker.modules):
            key = "trackers" if name in config.training.trackers else name
            message = f"{name} is not installed: {install_command(tracker.extra)}"
            raise config.error(("training", key), message)


def scalars(line: Event) -> dict[str, float]:
    """Convert one line of ``metrics.jsonl`` to {tag: value}, without undefined values."""
    tagged: dict[str, float | None] = {}
    if line["event"] == "step":
        names = ("loss", "lr", "head_lr", "grad_norm", "penalty", *TERMS)
        tagged = {f"train/{name}/{line['task']}": line[name] for name in names if name in line}
    elif line["event"] == "eval":
        # also tasks that are only evaluated are under the split that selects
        for task, values in line["tasks"].items():
            tagged |= {f"{line['split']}/{name}/{task}": value for name, value in values.items()}
        tagged[f"{line['split']}/joint"] = line["joint"]
    return {tag: value for tag, value in tagged.items() if value is not None}


def rows_of(lines: Iterable[bytes]) -> list[Row]:
    """Convert lines of ``metrics.jsonl`` to one row per step; damaged lines are left out."""
    events = [event for line in lines if (event := parse_event(line)) is not None]
    rows = []
    for step, group in groupby(events, key=lambda event: event["step"]):
        values = {tag: value for event in group for tag, value in scalars(event).items()}
        if values:
            rows.append(Row(step, values))
    return rows


def scores_of(report: RunReport) -> dict[str, float]:
    """Return the scores of a report by tag, such as ``report/dev/accuracy/sst``."""
    report = report.defined()
    scores = {f"report/{name}": value for name, value in report.overall.content().items()}
    for name, task in report.tasks.items():
        scores |= {f"report/dev/{metric}/{name}": value for metric, value in task.dev.items()}
    return {tag: value for tag, value in scores.items() if isinstance(value, int | float)}


class Tracking(Callback):
    """Follows the log of a run and sends it to its trackers; only the first process does.

    At the start it sends the lines that the log has already (in a resumed run) and a tracker lacks.
    """

    def __init__(self, config: Config, run: RunDirectory) -> None:
        self.names = tracker_names(config)
        name = run.path.resolve().name
        sweep = os.environ.get(SWEEP_VARIABLE) or None
        self.run = TrackedRun(run, name, config.resolved(), sweep)
        self._open: dict[str, Tracker] = {}
        self._sent: dict[str, set[tuple[str, int]]] = {}
        self._read: dict[str, int] = {}  # how many bytes of the log each tracker has
        self._looked = 0.0  # when, in seconds of a monotonic clock

    def on_start(self, trainer: "Trainer") -> None:
        if distributed.rank() > 0:
            return
        self._open = {name: imported(TRACKERS[name])() for name in self.names}

        def start(name: str) -> None:
            directory, tracker = self.run.directory, self._open[name]
            ids = directory.load_tracker_ids()
            run_id = tracker.start(self.run, ids.get(name))
            if run_id is not None:
                directory.write_json(directory.tracker_ids, ids | {name: run_id})
            self._sent[name] = tracker.sent()

        self._each(start)
        self._follow()

    def on_step(self, trainer: "Trainer", tasks: Sequence[str], result: Stepped) -> None:
        if time.monotonic() - self._looked >= PAUSE:
            self._follow()

    def on_evaluation(self, trainer: "Trainer", evaluation: Evaluation) -> None:
        self._follow()

    def on_end(self, trainer: "Trainer") -> None:
        self._follow()
        if not trainer.finished:
            self._close(finished=False)

    def on_report(self, trainer: "Trainer", report: RunReport) -> None:
        row = Row(trainer.step, scores_of(report))
        self._each(lambda name: self._open[name].report(row))
        self._close(finished=True)

    def _close(self, *, finished: bool) -> None:
        self._each(lambda name: self._open[name].close(finished))
        self._open = {}

    def _follow(self) -> None:
        """Send the lines that were added to the log since the last call."""
        self._each(self._send)
        self._looked = time.monotonic()

    def _send(self, name: str) -> None:
        """Send the new lines of the log that a tracker lacks."""
        with self.run.directory.metrics.open("rb") as opened:
            opened.seek(self._read.get(name, 0))
            rows = rows_of(opened)
            self._read[name] = opened.tell()
        sent = self._sent[name]
        lacking = [
            Row(step, {tag: value for tag, value in values.items() if (tag, step) not in sent})
            for step, values in rows
        ]
        if lacking := [row for row in lacking if row.values]:
            self._open[name].log(lacking)

    def _each(self, act: Callable[[str], None]) -> None:
        """Call ``act`` with the name of each tracker; drop one that fails, with a warning."""
        for name in list(self._open):
            try:
                act(name)
            except Exception as error:  # of any library
                reason = reason_of(error, 300) or type(error).__name__
                warn(f"{name} failed, the run goes on without it ({reason}): see docs/training.md")
                del self._open[name]
