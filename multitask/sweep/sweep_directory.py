"""The directory of a sweep: its runs, with their files, results and errors."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from multitask.config import Config
from multitask.config.yaml_merge import Override
from multitask.config.yaml_reader import dump_override
from multitask.store.files import OWNER_LOCK
from multitask.store.lock import holder, is_unfinished
from multitask.store.run_directory import Named, RunDirectory
from multitask.sweep.grid import Grid
from multitask.utils.errors import UserError


@dataclass(frozen=True)
class SweepDirectory:
    """A sweep's directory. Only this class and ``Run`` know the names of the files in it.

    Attributes:
        path: the directory.
    """

    path: Path

    # the grid that the directory belongs to, including what it extends
    grid = Named("grid.yaml")
    # the lock of the process that writes the grid or the comparison
    lock = Named(OWNER_LOCK)
    # the search that the directory belongs to
    search = Named("search.yaml")
    # what `encoder.kernels: auto` means for all runs
    kernels = Named("grid.kernels")
    # the directory of the runs
    cells = Named("cells")
    # the lock of the process that trains the probes
    probes_lock = Named(f"cells/{OWNER_LOCK}")

    def run(self, cell: str, seed: int) -> Path:
        """Return the directory of a run."""
        return self.cells / cell / f"seed-{seed}"

    def trial(self, cell: str) -> Path:
        """Return the file with the values of a trial, and why it ended without a score."""
        return self.cells / cell / "trial.json"

    def trials(self) -> list[Path]:
        """Return the files of all trials."""
        return list(self.cells.glob("trial-*/trial.json"))

    def comparison(self, task: str) -> Path:
        """Return the directory of the comparison: one per task if tasks are trained apart."""
        return self.path / "tasks" / task if task else self.path


@dataclass(frozen=True)
class Run:
    """A training run of a sweep: a cell with a seed.

    Attributes:
        cell: the name of the cell.
        seed: the seed.
        directory: the run directory.
        config: the config.
        arguments: the arguments of its ``train`` command.
    """

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
        """The output of the run's process, over all starts."""
        return self.directory.parent / "logs" / f"{self.directory.name}.log"  # no match for seed-*

    @property
    def owner(self) -> str | None:
        """The name of the process that trains the run; another one ends with the code 75."""
        return holder(self.files.lock)

    def with_kernels(self, kernels: str | None) -> "Run":
        """Return the run with these kernels in place of `auto`; None: the run itself."""
        if kernels is None or self.config.encoder.kernels != "auto":
            return self
        arguments = (*self.arguments, dump_override("encoder.kernels", kernels))
        return replace(self, config=self.config.with_kernels(kernels), arguments=arguments)

    @property
    def finished(self) -> bool:
        """True if there is a report."""
        return self.files.finished

    @property
    def settled(self) -> bool:
        """True if the run is finished and its process has done what comes after the report."""
        return self.finished and not is_unfinished(self.files.lock)


@dataclass(frozen=True)
class Failure:
    """A run that ended without a report.

    Attributes:
        run: the run.
        reason: the reason, in one line.
    """

    run: Run
    reason: str

    @property
    def shown(self) -> str:
        """The reason with the log, for the output."""
        return f"failed: {self.reason}; log: {self.run.log}"


def check_ended(
    done: int, total: int, what: str, *, output: Path, failed: Sequence[Failure], stopped: bool
) -> None:
    """Raise UserError if a sweep was interrupted, or if some of its runs failed.

    Args:
        done: how many of ``total`` have ended.
        what: what they are and how they end, such as ``runs are finished``.
        output: the directory of the sweep.
        failed: those that failed.
        stopped: True after Ctrl-C or SIGTERM.
    """
    if stopped:
        message = f"interrupted: {done} of {total} {what} in {output}"
        raise UserError(f"{message}; go on with the same command")
    if failed:
        names = ", ".join(failure.run.name for failure in failed)
        reasons = "; ".join(dict.fromkeys(failure.reason for failure in failed))
        message = f"{len(failed)} of {total} {what.partition(' ')[0]} failed: {names}: {reasons}"
        raise UserError(f"{message}; the same command tries them again")


def plan_runs(grid: Grid, output: Path) -> list[Run]:
    """List all cells with the first seed, then with the next: an early table has all cells."""
    runs = []
    for seed in grid.seeds:
        for cell in grid.cells:
            directory = SweepDirectory(output).run(cell.name, seed)
            arguments = train_arguments(grid.base, cell.settings, seed, directory)
            config = grid.config(cell, seed, directory)
            runs.append(Run(cell.name, seed, directory, config, arguments))
    return runs


def train_arguments(
    base: Path, settings: Sequence[Override], seed: int, directory: Path
) -> tuple[str, ...]:
    """Return the arguments of the ``train`` command of a run."""
    of_run = [dump_override("seed", seed), dump_override("output_dir", str(directory))]
    return ("train", str(base), *(setting.text for setting in settings), *of_run)


def finished_cells(grid: Grid, runs: Sequence[Run]) -> dict[str, list[Path]]:
    """Return the finished runs of each cell, by its name; a cell may have none."""
    finished: dict[str, list[Path]] = {cell.name: [] for cell in grid.cells}
    for run in runs:
        if run.finished:
            finished[run.cell].append(run.directory)
    return finished


def mean_score(run: Run) -> str:
    """Return the run's overall dev score as ``mean 0.731``; ``mean -`` if it is undefined."""
    mean = run.files.load_report().overall.mean
    return "mean -" if mean is None else f"mean {mean:.3f}"


def error_line(log: Path, code: int) -> str:
    """Say why the last start in a log ended: its error line, or else its last line.

    If it said nothing, name its host and the log.
    """
    start, said = "", list[str]()
    for line in log.read_text(encoding="utf-8", errors="replace").split("\n"):
        if line.startswith("# start "):
            start, said = line, []
        elif line.strip():
            said.append(line.strip())
    host = start.partition(" on ")[2].partition(": ")[0]
    where = f", and nothing said on {host} ({log})" if host and not said else ""
    if code < 0:
        return f"killed by signal {-code} ({signal.strsignal(-code)}){where}"
    errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
    return [f"exit code {code}{where or ', and nothing said'}", *said, *errors][-1]
