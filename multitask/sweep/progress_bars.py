"""The output of a sweep: progress bars on a terminal, and a line per run."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import parse_event
from multitask.utils.heartbeat import working
from multitask.utils.terminal import say as say_now

SHOWN = 3  # running runs that a line names
TAIL = 4096  # bytes; longer than a line of metrics.jsonl
REFRESH = 5.0  # seconds between two looks at how far the runs are


class Progress:
    """A bar over all runs with the remaining time and how far the running ones are.

    It is shown only on a terminal (stderr). Elsewhere the line that ``heartbeat`` prints after 30
    seconds of silence says how far the runs are. ``say`` prints a line.
    """

    def __init__(self, total: int, say: Callable[[str], None] = say_now) -> None:
        self.total, self.say = total, say
        self._looked = -REFRESH
        # smoothing 0: the remaining time is estimated from the mean over this start's runs
        self._bar = tqdm(total=total, unit="run", disable=None, smoothing=0, dynamic_ncols=True)
        self._working = working("runs finished", total)

    def __enter__(self) -> "Progress":
        self._work = self._working.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._working.__exit__(*error)
        self._bar.close()

    def skipped(self, count: int) -> None:
        """Count runs that an earlier start has finished; they do not affect the time estimate."""
        self._work.done += count
        self._bar.initial = self._bar.n = count
        self._bar.refresh()
        if count:
            self.say(f"{count} of {self.total} runs are finished already")

    def settled(self, name: str, result: str) -> None:
        """Print that a run is finished or failed: ``cell 3/27 NAME seed 1: mean 0.731 (182 s)``."""
        self._work.done += 1
        self._bar.update()
        self.say(f"cell {self._work.done}/{self.total} {name}: {result}")

    def show(self, running: Sequence[tuple[str, Path]]) -> None:
        """Show how far the running runs are, given as (name, directory)."""
        now = time.monotonic()
        if now < self._looked + REFRESH:
            return
        self._looked = now
        shown = []
        for name, run_dir in running[:SHOWN]:
            step, steps, epoch, epochs = steps_done(run_dir) or (0, 0, 0.0, 0.0)
            far = f"step {step:,} of {steps:,}, epoch {epoch:.2f} of {epochs:.4g}"
            shown.append(f"{name}: {far if step else 'no step yet'}")
        shown += ["..."] if running[SHOWN:] else []
        self._work.title = "; ".join([*shown, "runs finished"])  # for the line of `heartbeat`
        self._bar.set_postfix_str("; ".join(shown))


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
