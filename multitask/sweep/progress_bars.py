"""The output of a sweep: progress bars on a terminal, and a line per run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from multitask.config.run_directory import RunDirectory

TAIL = 4096  # bytes; longer than a line of metrics.jsonl


class Progress:
    """A bar over all runs and one per running run, each with the remaining time.

    Bars are shown only on a terminal (stderr); the lines of ``settled`` go to stdout.
    """

    def __init__(self, total: int, slots: int) -> None:
        self.total = total
        self.done = 0
        # smoothing 0: the remaining time is estimated from the mean over this start's runs
        self._all = tqdm(total=total, unit="run", disable=None, smoothing=0, dynamic_ncols=True)
        self._slots = [
            tqdm(
                position=1 + slot,
                disable=None,
                leave=False,
                dynamic_ncols=True,
                bar_format="{desc} {bar} {n_fmt}/{total_fmt} [{elapsed}<{remaining}]",
            )
            for slot in range(min(slots, total))
        ]
        self._timed: dict[int, Path | None] = {}  # the run that a slot's bar measures

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        for bar in (*reversed(self._slots), self._all):
            bar.close()

    def say(self, line: str) -> None:
        """Print a line on stdout, above the bars."""
        with tqdm.external_write_mode():
            print(line, flush=True)

    def skipped(self, count: int) -> None:
        """Count runs that an earlier start has finished; they do not affect the time estimate."""
        self.done += count
        self._all.initial = self._all.n = count
        self._all.refresh()
        if count:
            self.say(f"{count} of {self.total} runs are finished already")

    def settled(self, name: str, result: str) -> None:
        """Print that a run is finished or failed: ``cell 3/27 NAME seed 1: mean 0.731 (182 s)``."""
        self.done += 1
        self._all.update()
        self.say(f"cell {self.done}/{self.total} {name}: {result}")

    def show(self, running: Sequence[tuple[str, Path]]) -> None:
        """Update the bars of the running runs, given as (name, directory)."""
        for index, bar in enumerate(self._slots):
            if bar.disable:
                return
            name, directory = running[index] if index < len(running) else ("", None)
            done = steps_done(directory) if directory else None
            timed = directory if done else None
            if timed != self._timed.get(index):  # the remaining time must be that of this run
                self._timed[index] = timed
                bar.reset()
                bar.initial = done.step if done else 0
            epoch = f", epoch {done.epoch:.2f}/{done.epochs:.4g}" if done else ""
            bar.set_description_str(name + epoch, refresh=False)
            bar.n, bar.total = (done.step, done.steps) if done else (0, 0)
            bar.refresh()


class Done(NamedTuple):
    """The progress of a run.

    Attributes:
        step: steps done.
        steps: planned steps.
        epoch: epochs done.
        epochs: planned epochs.
    """

    step: int
    steps: int
    epoch: float
    epochs: float


def steps_done(run_dir: Path) -> Done | None:
    """Read the progress of a run from its log: the first line, the plan, and the last epoch.

    None before the first step.
    """
    try:
        with RunDirectory(run_dir).metrics.open("rb") as opened:
            first = _event(opened.readline())
            opened.seek(max(0, opened.seek(0, 2) - TAIL))
            lines = opened.read().splitlines()
    except OSError:
        return None
    if first.get("event") != "plan":  # the line is being written, or the run is older
        return None
    for line in reversed(lines):
        event = _event(line)
        if event.get("epoch"):
            return Done(event["step"], first["steps"], event["epoch"], first["epochs"])
    return None


def _event(line: bytes) -> dict[str, Any]:
    """Parse a line of the log; empty if it is being written, or cut by TAIL."""
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
