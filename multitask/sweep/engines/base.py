"""The interface of the engines, which run the commands of a sweep, and their registry.

To add an engine, add one file and one line to ``ENGINES``.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from multitask.utils.errors import UserError

ENGINES = {
    "local": "multitask.sweep.engines.local:Local",
    "ray": "multitask.sweep.engines.ray:Ray",
    "slurm": "multitask.sweep.engines.slurm:Slurm",
}


@dataclass(frozen=True)
class Job:
    """One command of a sweep. It runs in the current directory, in a process group of its own.

    Attributes:
        name: the name, unique in the sweep.
        command: the program and its arguments.
        log: the file to which the output is appended, after ``# start TIME on HOST: COMMAND``. Its
            directory exists.
        directory: the run directory; it need not exist.
        environment: the variables that the command gets in addition to those of its host.
    """

    name: str
    command: tuple[str, ...]
    log: Path
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """The options that the user gives an engine.

    Attributes:
        directory: the sweep's directory, for the files of the engine, such as scripts and job ids.
        jobs: the largest number of commands at once; None: all in an engine with a queue, else one.
        cpus: CPU cores per command; None: the engine's default.
        gpus: GPUs per command, maybe a part of one; None: the engine's default.
        address: the Ray cluster; None: a new one on this machine.
        slurm: the options of ``sbatch``, such as ``{"partition": "gpu", "time": "2:00:00"}``; one
            without a value has an empty text: ``{"exclusive": ""}``.
        slurm_setup: a file with lines of bash that SLURM's nodes run before each command.
        detach: submit and do not wait (SLURM).
    """

    directory: Path
    jobs: int | None = None
    cpus: int | None = None
    gpus: float | None = None
    address: str | None = None
    slurm: Mapping[str, str] = field(default_factory=dict)
    slurm_setup: str | os.PathLike[str] | None = None
    detach: bool = False

    def __post_init__(self) -> None:
        """Raise UserError for a wrong number."""
        for option, number in (("--jobs", self.jobs), ("--cpus-per-run", self.cpus)):
            if number is not None and number < 1:
                raise UserError(f"{option}: expected a whole number ≥ 1, not {number}")
        gpus = self.gpus
        if gpus is not None and not (0 <= gpus <= 1 or (gpus > 1 and float(gpus).is_integer())):
            message = f"expected a part of one GPU such as 0.5, or a whole number, not {gpus:g}"
            raise UserError(f"--gpus-per-run: {message}")

    @property
    def slots(self) -> int:
        """The number of commands at once in an engine without a queue."""
        return self.jobs or 1


class Engine(Protocol):
    """Runs commands. The constructor takes ``Settings``; it raises UserError if it cannot run them.

    A job is in the engine from ``submit`` or ``attach`` until ``ended`` returns it.

    Attributes:
        queues: True if the engine has a queue, which keeps to ``Settings.jobs``: all jobs are
            submitted at once. Otherwise the caller submits a job when another has ended.
    """

    queues: ClassVar[bool]

    def attach(self, jobs: Sequence[Job]) -> None:
        """Find those of the jobs that an earlier start submitted and that have not ended."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start jobs, or queue them."""

    def ended(self) -> dict[str, int]:
        """Return the exit codes of the jobs that ended since the last call, by name.

        A code below 0 means that a signal or a lost node ended the job: -9 for SIGKILL.
        """

    def running(self) -> list[str]:
        """Return the names of the jobs in the engine, queued ones included, in order."""

    def cancel(self, names: Sequence[str]) -> None:
        """Send SIGTERM, on which a run saves its state and ends. Return at once.

        A queued job ends without a start, with the code -15.
        """

    def close(self) -> None:
        """Free the engine.

        What still runs is killed (local), gets SIGTERM (Ray), or goes on (SLURM).
        """


def load_engine(name: str, settings: Settings) -> Engine:
    """Return an engine. Raises UserError if it is not installed or cannot run the jobs."""
    from multitask.config.registry import imported  # here: `--help` reads the names alone

    engine: Engine = imported(ENGINES[name])(settings)
    return engine


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def threads(cpus: int | None, jobs: int) -> dict[str, str]:
    """Return the variables that set a command's threads on this machine.

    Without ``cpus`` that is an equal share of the cores, unless the user has set it. With one
    command at a time, torch chooses.
    """
    if cpus is not None:
        return {"OMP_NUM_THREADS": str(cpus)}
    if jobs == 1 or "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, cores() // jobs))}
