"""Run the commands on a SLURM cluster, with ``sbatch --array``, ``squeue`` and ``scancel``.

Each ``submit`` makes a job array, or several: see ``slurm_array``.
"""

import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from multitask.store.files import OWNER_LOCK
from multitask.store.lock import owned
from multitask.sweep.engines.base import Job, Settings
from multitask.sweep.engines.slurm_array import (
    UNSEEN,
    Task,
    ask,
    number_of,
    submit_array,
    tasks_of,
)
from multitask.utils.errors import TryAgain, UserError
from multitask.utils.terminal import say

POLL = 5.0  # seconds between two questions to SLURM
LATE = 60.0  # seconds until NFS shows a file that another machine has written
TOLD = 60.0  # seconds between two lines that say why runs wait
PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol", "srun")
# options of sbatch that the sweep sets or cannot work with, and what to do instead
TAKEN = {
    "array": "give the number of runs at once with --jobs",
    "clusters": "set the variable SLURM_CLUSTERS, which all commands of SLURM read",
    "cpus-per-task": "give it with --cpus-per-run",
    "wait": "leave it out: the sweep waits, unless you give --detach",
    **dict.fromkeys(("open-mode", "output", "test-only", "wrap"), "leave it out"),
}
SIGNAL = re.compile(r"TERM@\d+")
# what a run ends with when SLURM asks for it: its state is saved, or it had none yet
STOPPED = (TryAgain.exit_code, -signal.SIGTERM)
# the exit code in SLURM's records if a node could not open a task's log
NO_LOG = "0:53"


class Slurm:
    """Tasks of SLURM job arrays. They go on when the sweep is killed.

    A task that was stopped is queued again by its script or by SLURM: ``ended`` returns it later.
    """

    queues: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        for program in PROGRAMS:
            if shutil.which(program) is None:
                raise UserError(
                    f"--engine slurm: there is no {program} here: start the sweep on a machine "
                    "with SLURM's commands, such as the cluster's login node"
                )
        if settings.gpus is not None:
            raise UserError("--gpus-per-run: SLURM deals out GPUs: use --slurm gres=gpu:1")
        self._directory = settings.directory.absolute() / "slurm"
        check_options(settings.slurm)
        self._setup = read_setup(settings.slurm_setup)
        in_queue()  # raises UserError
        self._settings = settings
        self._tasks: dict[str, Task] = {}
        self._missed: dict[str, float] = {}  # since when SLURM does not list a task without a code
        self._cancelled: set[str] = set()
        self._next = 0.0  # the clock of the next question
        self._told = -TOLD  # the clock of the last line that said why runs wait

    def attach(self, jobs: Sequence[Job]) -> None:
        """Raises UserError if a job is in the queue with another command."""
        left = left_in_queue(self._directory)
        for job in jobs:
            if job.name in left and left[job.name].command != job.command:
                raise UserError(
                    f"{job.name}: an earlier start has queued it with other values: take the "
                    f"change back, or end that job with `scancel {left[job.name].id}`"
                )
        self._tasks |= {job.name: left[job.name] for job in jobs if job.name in left}

    def submit(self, jobs: Sequence[Job]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)

        def say_waiting(name: str) -> None:
            say(f"another process submits to SLURM ({name}): waiting for it")

        with owned(self._directory / OWNER_LOCK, "submits to SLURM", waiting=say_waiting):
            self.attach(jobs)  # another sweep may have submitted them since
            new = [job for job in jobs if job.name not in self._tasks]
            most, after = largest_array(), ""
            for start in range(0, len(new), most):
                part = new[start : start + most]
                tasks = submit_array(
                    part, self._directory, self._settings, setup=self._setup, after=after
                )
                self._tasks |= tasks
                if self._settings.jobs:  # one array after the other
                    after = f"afterany:{tasks[part[0].name].id.partition('_')[0]}"
        for job in jobs:
            self._missed.pop(job.name, None)
            self._cancelled.discard(job.name)

    def ended(self) -> dict[str, int]:
        if time.monotonic() < self._next or not self._tasks:
            return {}
        # before the codes are read: a task writes its code before it leaves the queue
        try:
            queued = in_queue()
        except UserError:
            queued = None
        codes = {}
        for name, task in list(self._tasks.items()):
            code = task.code()
            if code in STOPPED and (queued is None or task.id in queued):
                code = None  # it ends, or SLURM has queued it again itself
            if code is None and queued is not None:
                code = self._lost(name, task.id in queued)
            if code is not None:
                codes[name] = code
                del self._tasks[name]
        # again: the signal may have come before the command started
        self._end([name for name in self._tasks if name in self._cancelled])
        self._say_why(queued or {})
        self._next = time.monotonic() + POLL
        return codes

    def running(self) -> list[str]:
        return list(self._tasks)

    def cancel(self, names: Sequence[str]) -> None:
        self._cancelled.update(names)
        self._end(names)
        self._next = 0.0

    def close(self) -> None:
        """Let the jobs go on; the next start finds them."""

    def _lost(self, name: str, queued: bool) -> int | None:
        """Return the code of a task that ended without writing one; None if it may still come."""
        if queued:
            self._missed.pop(name, None)
            return None
        if name in self._cancelled:
            return -signal.SIGTERM
        now = time.monotonic()
        first = name not in self._missed
        waits = now - self._missed.setdefault(name, now) <= LATE
        if waits and not first:
            return None
        task = self._tasks[name]
        said = ask("scontrol", "--oneliner", "show", "job", task.id).stdout
        record = dict(word.split("=", 1) for word in said.split() if "=" in word)
        state, node = record.get("JobState", "lost"), record.get("NodeList", "an unknown node")
        if record.get("ExitCode") in (f"{UNSEEN}:0", NO_LOG):
            raise UserError(
                f"--engine slurm: node {node} does not see {self._settings.directory.absolute()} "
                f"or {Path.cwd()}: give an --output DIR that all nodes share and start there, too, "
                f"or leave the node out with --slurm exclude={node}"
            )
        if state == "PREEMPTED":
            return TryAgain.exit_code
        if waits:
            return None
        say(f"{name}: SLURM's job {task.id} is {state} on {node}; {task.file.with_suffix('.log')}")
        return -signal.SIGKILL

    def _say_why(self, queued: Mapping[str, str]) -> None:
        """Say once a minute why runs wait, but for the limit that the user has set."""
        reasons = Counter(queued.get(task.id, "") for task in self._tasks.values())
        for silent in ("", "None", "JobArrayTaskLimit"):
            del reasons[silent]
        if reasons and time.monotonic() - self._told >= TOLD:
            self._told = time.monotonic()
            why = ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
            say(f"waiting in SLURM's queue: {why}")

    def _end(self, names: Sequence[str]) -> None:
        """Take queued tasks out of the queue, and send running ones SIGTERM.

        A plain ``scancel`` would kill a run after ``KillWait``, 30 seconds, even if it still saves.
        """
        ids = [self._tasks[name].id for name in names if name in self._tasks]
        if ids:
            ask("scontrol", "update", f"JobId={','.join(ids)}", "Requeue=0")
            ask("scancel", "--state=PENDING", *ids)
            ask("scancel", "--state=RUNNING", "--signal=TERM", *ids)


def check_options(options: Mapping[str, str]) -> None:
    """Raise UserError for options of ``sbatch`` with which runs would not work."""
    for name in options:
        if name in TAKEN:
            raise UserError(f"--slurm {name}: the sweep sets this option: {TAKEN[name]}")
    given = options.get("signal")
    if given and not SIGNAL.fullmatch(given):
        raise UserError(f"--slurm signal={given}: a run saves its state on TERM: give TERM@SECONDS")


def read_setup(file: str | os.PathLike[str] | None) -> str:
    """Return the lines of a setup file. Raises UserError if SLURM would not see its options."""
    if file is None:
        return ""
    try:
        content = Path(file).read_bytes().replace(b"\r\n", b"\n")
    except OSError as error:
        raise UserError(f"--slurm-setup {file}: {error.strerror}") from None
    lines = content.decode("utf-8", "surrogateescape")
    if re.search(r"^#SBATCH\b", lines, re.MULTILINE):
        raise UserError(f"--slurm-setup {file}: give the options of #SBATCH with --slurm")
    return lines


def largest_array() -> int:
    """Return how many tasks an array may have; no limit if SLURM does not say it."""
    said = ask("scontrol", "show", "config").stdout
    limits = re.findall(r"^MaxArraySize\s*=\s*(\d+)|max_array_tasks=(\d+)", said, re.MULTILINE)
    return min((int(size or tasks) for size, tasks in limits), default=sys.maxsize) or 1


def left_in_queue(directory: Path) -> dict[str, Task]:
    """Return the tasks of earlier starts that run or wait, by name.

    Raises UserError if SLURM does not answer.
    """
    saved = [
        (name, task)
        for array in sorted(directory.glob("*"), key=number_of)  # the newest last
        for name, task in tasks_of(array)
        if task.code() in (None, *STOPPED)
    ]
    queued = in_queue() if saved else {}
    return {name: task for name, task in saved if task.id in queued}


def in_queue() -> dict[str, str]:
    """Return this user's queued and running tasks by id, with the reason why a task waits.

    Raises UserError if SLURM does not answer.
    """
    result = ask("squeue", "--me", "--array", "--noheader", "--format=%i|%T|%r")
    if result.returncode:
        said = " ".join(result.stderr.split())
        raise UserError(f"--engine slurm: squeue does not answer: {said}; try again later")
    tasks = {}
    for line in result.stdout.splitlines():
        task, state, reason = (*line.strip().split("|", 2), "", "")[:3]
        tasks[task] = reason if state == "PENDING" else ""
    return tasks
