"""One run of a sweep on disk: where it stands, what it leaves, why it failed."""

import json
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from multitask.config import Config
from multitask.reporting.model_card import write_card
from multitask.reporting.run_report import write_reports

DISCARDED = ("checkpoints", "weights", "encoder")


@dataclass(frozen=True)
class Run:
    """One training run of a sweep: a cell with a seed."""

    cell: str
    seed: int
    directory: Path
    config: Config
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.cell} seed {self.seed}"

    @property
    def log(self) -> Path:
        """What the run's process printed, all its starts one after the other."""
        return self.directory.parent / "logs" / f"{self.directory.name}.log"  # no match for seed-*

    @property
    def finished(self) -> bool:
        return (self.directory / "report.json").is_file()


@dataclass(frozen=True)
class Failure:
    """A run that ended without a report, and the line that says why."""

    run: Run
    reason: str


def discard_weights(run: Run) -> None:
    """Remove what only predicting or resuming needs; the result stays.

    A kill in between does no harm: the run is finished, and its claim, still there, makes the
    next start do this again.
    """
    for name in DISCARDED:
        shutil.rmtree(run.directory / name, ignore_errors=True)


def complete_report(run: Run) -> None:
    """Write the readable report of a run that was killed between report.json and it."""
    if not (run.directory / "report.md").is_file():
        write_reports(run.directory)
        write_card(run.directory)


def mean_score(run: Run) -> str:
    """``mean 0.731``: the run's overall dev score, ``mean -`` when it is undefined."""
    report = json.loads((run.directory / "report.json").read_text(encoding="utf-8"))
    mean = report["overall"]["mean"]
    return "mean -" if mean is None else f"mean {mean:.3f}"


def error_line(log: Path, code: int) -> str:
    """Why the last start in a log ended: its error line, else its last line."""
    if code < 0:
        return f"killed by signal {-code} ({signal.strsignal(-code)})"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    own: list[str] = []
    for line in lines:
        own = [] if line.startswith("# start ") else [*own, line.strip()]
    said = [line for line in own if line]
    errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
    return [f"exit code {code}, and nothing said", *said, *errors][-1]
