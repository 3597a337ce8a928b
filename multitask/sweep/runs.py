"""One run of a sweep on disk: where it stands, what it leaves, why it failed."""

import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from multitask.config import Config
from multitask.config.run_directory import RunDirectory
from multitask.reporting.model_card import write_card
from multitask.reporting.run_report import write_reports


@dataclass(frozen=True)
class SweepDirectory:
    """A sweep's directory. Only this class and ``Run`` know the names of the files in it.

    Attributes:
        path: the directory.
    """

    path: Path

    @property
    def grid(self) -> Path:
        """The grid with all that it extends, which the directory belongs to."""
        return self.path / "grid.yaml"

    @property
    def grid_claim(self) -> Path:
        """What a process claims that writes the grid or the comparison."""
        return self.path / "grid"

    @property
    def cells(self) -> Path:
        """The directory of the runs."""
        return self.path / "cells"

    def run(self, cell: str, seed: int) -> Path:
        """The directory of a run."""
        return self.cells / cell / f"seed-{seed}"

    def comparison(self, task: str) -> Path:
        """The directory of a comparison: of the tasks that are trained apart, each has its own."""
        return self.path / "tasks" / task if task else self.path


@dataclass(frozen=True)
class Run:
    """One training run of a sweep: a cell with a seed."""

    cell: str
    seed: int
    directory: Path
    config: Config
    arguments: tuple[str, ...]

    @property
    def files(self) -> RunDirectory:
        """The files of the run."""
        return RunDirectory(self.directory)

    @property
    def name(self) -> str:
        return f"{self.cell} seed {self.seed}"

    @property
    def log(self) -> Path:
        """What the run's process printed, all its starts one after the other."""
        return self.directory.parent / "logs" / f"{self.directory.name}.log"  # no match for seed-*

    @property
    def finished(self) -> bool:
        return self.files.finished


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
    for folder in (run.files.checkpoints, run.files.weights, run.files.encoder):
        shutil.rmtree(folder, ignore_errors=True)


def complete_report(run: Run) -> None:
    """Write the readable report of a run that was killed between report.json and it."""
    if not run.files.markdown_page.is_file():
        write_reports(run.directory)
        write_card(run.directory)


def mean_score(run: Run) -> str:
    """``mean 0.731``: the run's overall dev score, ``mean -`` when it is undefined."""
    mean = run.files.load_report()["overall"]["mean"]
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
