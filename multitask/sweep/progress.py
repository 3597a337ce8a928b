"""What a sweep shows: bars on a terminal, one plain line a run everywhere."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tqdm import tqdm

from multitask.config import Config

TAIL = 4096  # bytes; longer than a line of metrics.jsonl


class Progress:
    """A bar over all runs, with the time left, and one for each run under way.

    The bars are for a terminal (stderr); the lines of ``settled`` go to stdout always.
    """

    def __init__(self, total: int, slots: int) -> None:
        self.total = total
        self.done = 0
        # smoothing 0: the time left comes from the mean over this start's runs
        self._all = tqdm(total=total, unit="run", disable=None, smoothing=0, dynamic_ncols=True)
        self._slots = [
            tqdm(
                position=1 + slot,
                disable=None,
                leave=False,
                dynamic_ncols=True,
                bar_format="{desc} {bar} {n_fmt}/{total_fmt}",
            )
            for slot in range(min(slots, total))
        ]

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for bar in (*reversed(self._slots), self._all):
            bar.close()

    def say(self, line: str) -> None:
        """A line on stdout, above the bars."""
        with tqdm.external_write_mode():
            print(line, flush=True)

    def skipped(self, count: int) -> None:
        """Runs that an earlier start has finished: no part of the time estimate."""
        self.done += count
        self._all.initial = self._all.n = count
        self._all.refresh()
        if count:
            self.say(f"{count} of {self.total} runs are finished already")

    def settled(self, name: str, result: str) -> None:
        """One run is finished or has failed: ``cell 3/27 NAME seed 1: mean 0.731 (182 s)``."""
        self.done += 1
        self._all.update()
        self.say(f"cell {self.done}/{self.total} {name}: {result}")

    def show(self, running: Sequence[tuple[str, Path, Config]]) -> None:
        """Each run under way: its name, directory and config."""
        for index, bar in enumerate(self._slots):
            if bar.disable:
                return
            name, step, total = "", 0, 0
            if index < len(running):
                name, directory, config = running[index]
                step, total = steps_done(directory, config) or (0, 0)
            bar.set_description_str(name, refresh=False)
            bar.n, bar.total = step, total
            bar.refresh()


def steps_done(run_dir: Path, config: Config) -> tuple[int, int] | None:
    """The step a run is at and the number it plans, from the last line that it logged.

    None before the first step. The log holds no plan: it follows from the step and its epoch.
    """
    try:
        with (run_dir / "metrics.jsonl").open("rb") as opened:
            opened.seek(max(0, opened.seek(0, 2) - TAIL))
            lines = opened.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:  # being written, or cut by TAIL
            continue
        if event.get("epoch"):
            total = round(event["step"] * config.training.epochs / event["epoch"])
            return event["step"], min(total, config.training.max_steps or total)
    return None
