"""The output of a sweep: progress bars on a terminal, and a line per run."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import parse_event
from multitask.utils.heartbeat import working

SHOWN = 3  # running runs that a line names
TAIL = 4096  # bytes; longer than a line of metrics.jsonl
REFRESH = 5.0  # seconds between two looks at how far the runs are


class Progress:
    """A bar over all runs and one per running run, each with the remaining time.

    Bars are shown only on a terminal (stderr). Elsewhere the line that ``heartbeat`` prints after
    30 seconds of silence says how far the runs are. Lines go to stdout, or to ``print_line``.
    """

    def __init__(self, total: int, slots: int, print_line: Callable[[str], None] = print) -> None:
        self.total = total
        self.done = 0
        self._print = print_line
        self._titled = -REFRESH
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
        self._working = working("runs finished", total)

    def __enter__(self) -> "Progress":
        self._work = self._working.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._working.__exit__(*error)
        for bar in (*reversed(self._slots), self._all):
            bar.close()

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        say(line, self._print)

    def skipped(self, count: int) -> None:
        """Count runs that an earlier start has finished; they do not affect the time estimate."""
        self.done = self._work.done = self.done + count
        self._all.initial = self._all.n = count
        self._all.refresh()
        if count:
            self.say(f"{count} of {self.total} runs are finished already")

    def settled(self, name: str, result: str) -> None:
        """Print that a run is finished or failed: ``cell 3/27 NAME seed 1: mean 0.731 (182 s)``."""
        self.done = self._work.done = self.done + 1
        self._all.update()
        self.say(f"cell {self.done}/{self.total} {name}: {result}")

    def show(self, running: Sequence[tuple[str, Path]]) -> None:
        """Update the bars of the running runs, given as (name, directory)."""
        if self._all.disable:
            now = time.monotonic()
            if now >= self._titled + REFRESH:  # for the line that `heartbeat` prints
                self._titled = now
                shown = [f"{name}: {_how_far(files)}" for name, files in running[:SHOWN]]
                more = ["..."] if running[SHOWN:] else []
                self._work.title = "; ".join([*shown, *more, "runs finished"])
            return
        for index, bar in enumerate(self._slots):
            name, directory = running[index] if index < len(running) else ("", None)
            done = steps_done(directory) if directory else None
            step, steps, epoch, epochs = done or (0, 0, 0, 0)
            timed = directory if done else None
            if timed != self._timed.get(index):  # the remaining time must be that of this run
                self._timed[index] = timed
                bar.reset()
                bar.initial = step
            text = f"{name}, epoch {epoch:.2f}/{epochs:.4g}" if done else name
            bar.set_description_str(text, refresh=False)
            bar.n, bar.total = step, steps
            bar.refresh()


def say(line: str, print_line: Callable[[str], None] = print) -> None:
    """Print a line on stdout, or by ``print_line``, above the bars that are shown."""
    with tqdm.external_write_mode():
        print_line(line)
        sys.stdout.flush()


def _how_far(run_dir: Path) -> str:
    done = steps_done(run_dir)
    if done is None:
        return "no step yet"
    return f"step {done[0]:,} of {done[1]:,}, epoch {done[2]:.2f} of {done[3]:.4g}"


def steps_done(run_dir: Path) -> tuple[int, int, float, float] | None:
    """Return a run's steps done and planned, then its epochs done and planned; None before any.

    They are in its log: in the first line, the plan, and in the last line with an epoch.
    """
    try:
        with RunDirectory(run_dir).metrics.open("rb") as opened:
            plan = parse_event(opened.readline())
            opened.seek(max(0, opened.seek(0, 2) - TAIL))
            lines = opened.read().splitlines()
    except OSError:
        return None
    if plan is None or plan["event"] != "plan":  # the line is being written, or the run is older
        return None
    events = filter(None, map(parse_event, reversed(lines)))  # one may be cut by TAIL
    last = next((event for event in events if event.get("epoch")), None)
    if last is None:
        return None
    return last["step"], plan["steps"], last["epoch"], plan["epochs"]
