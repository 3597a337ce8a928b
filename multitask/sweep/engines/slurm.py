"""Run the commands on a SLURM cluster, with ``sbatch --array``, ``squeue`` and ``scancel``.

Each ``submit`` makes one job array. Its files are in the sweep's directory, in ``slurm/N``:

- ``script.sh``: what SLURM runs;
- ``jobs.json``: the names and commands of the array's tasks, in their order;
- ``id``: the job id. ``sbatch`` writes it, so that it is saved even if the sweep is killed then;
- ``TASK.code``: the exit code of a task. The script writes it, so the cluster needs no accounting;
- ``TASK.log``: what SLURM says about a task, for example that its time is over.
"""

import fcntl
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from multitask.sweep.engines.base import Job, Settings
from multitask.utils.errors import UserError
from multitask.utils.files import hold, read_json, write_json

POLL = 5.0  # seconds between two questions to SLURM
LATE = 60.0  # seconds until NFS shows a file that another machine has written
PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol", "srun")
# options of sbatch that the script sets, and what to do instead
TAKEN = {
    "array": "give the number of runs at once with --jobs",
    "cpus-per-task": "give it with --cpus-per-run",
    "open-mode": "leave it out",
    "output": "leave it out",
}

SCRIPT = """\
#!/bin/bash
{options}
# `run LOG COMMAND` runs a command of the sweep and appends its output to LOG.
run() {{
  log=$1
  shift
  echo "# start $(date -Iseconds) on $(hostname):$(printf ' %q' "$@")" >>"$log"
  # the inner shell: what srun itself says is not the command's output
  srun --nodes=1 --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \\
    bash -c 'exec "$@" >>"$0" 2>&1' "$log" "$@"
}}

codes={codes}
rm -f "$codes/$SLURM_ARRAY_TASK_ID.code"
export OMP_NUM_THREADS={threads}
case $SLURM_ARRAY_TASK_ID in
{cases}
esac
code=$?
# 75: the state is saved, for example because the time is over. Go on later.
if [ $code = 75 ] && scontrol requeue "$SLURM_JOB_ID"; then
  exit $code
fi
echo $code >"$codes/$SLURM_ARRAY_TASK_ID.code"
exit $code
"""


@dataclass(frozen=True)
class Task:
    """A task of a job array.

    Attributes:
        id: its name in SLURM, such as ``4711_0``.
        command: the command.
        file: the file with its exit code.
    """

    id: str
    command: tuple[str, ...]
    file: Path

    def code(self) -> int | None:
        """Return the exit code, below 0 for a signal; None if it is not written yet."""
        try:
            code = int(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or half written
            return None
        return 128 - code if code > 128 else code


class Slurm:
    """Tasks of SLURM job arrays. They go on when the sweep is killed.

    A task that ends with 75 is queued again by its script, so ``ended`` returns it later.
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
        for name in settings.slurm:
            if name in TAKEN:
                raise UserError(f"--slurm {name}: the sweep sets this option: {TAKEN[name]}")
        ids_in_queue()  # raises UserError
        self._settings = settings
        self._directory = settings.directory.absolute() / "slurm"
        self._tasks: dict[str, Task] = {}
        self._missed: dict[str, float] = {}  # since when SLURM does not list a task without a code
        self._cancelled: set[str] = set()
        self._next = 0.0  # the clock of the next question

    def attach(self, jobs: Sequence[Job]) -> None:
        """Raises UserError if a job is in the queue with another command."""
        saved = [pair for pair in saved_tasks(self._directory) if pair[1].code() is None]
        queued = ids_in_queue() if saved else set()
        left = {name: task for name, task in saved if task.id in queued}
        for job in jobs:
            if job.name in left and left[job.name].command != job.command:
                raise UserError(
                    f"{job.name}: an earlier start has queued it with other values: take the "
                    f"change back, or end that job with `scancel {left[job.name].id}`"
                )
        self._tasks |= {job.name: left[job.name] for job in jobs if job.name in left}

    def submit(self, jobs: Sequence[Job]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        with hold(self._directory, wait=True):
            self.attach(jobs)  # another sweep may have submitted them since
            new = [job for job in jobs if job.name not in self._tasks]
            if new:
                self._tasks |= submit_array(new, self._directory, self._settings)
        for job in jobs:
            self._missed.pop(job.name, None)
            self._cancelled.discard(job.name)

    def ended(self) -> dict[str, int]:
        if time.monotonic() < self._next or not self._tasks:
            return {}
        # before the codes are read: a task writes its code before it leaves the queue
        try:
            queued = ids_in_queue()
        except UserError:
            queued = None
        codes = {}
        for name, task in list(self._tasks.items()):
            code = task.code()
            if code is None and queued is not None:
                code = self._lost(name, task.id in queued)
            if code is not None:
                codes[name] = code
                del self._tasks[name]
        # again: the signal may have come before the command started
        self._end([name for name in self._tasks if name in self._cancelled])
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
        return -signal.SIGKILL if now - self._missed.setdefault(name, now) > LATE else None

    def _end(self, names: Sequence[str]) -> None:
        """Take queued tasks out of the queue, and send running ones SIGTERM.

        A plain ``scancel`` would kill a run after ``KillWait``, 30 seconds, even if it still saves.
        """
        ids = [self._tasks[name].id for name in names if name in self._tasks]
        if ids:
            ask("scontrol", "update", f"JobId={','.join(ids)}", "Requeue=0")
            ask("scancel", "--state=PENDING", *ids)
            ask("scancel", "--state=RUNNING", "--signal=TERM", *ids)


def submit_array(jobs: Sequence[Job], parent: Path, settings: Settings) -> dict[str, Task]:
    """Submit jobs as an array, and return its tasks by name.

    Raises UserError if SLURM refuses it.
    """
    directory = new_directory(parent)
    saved = [{"name": job.name, "command": job.command} for job in jobs]
    write_json(directory / "jobs.json", saved)
    script = directory / "script.sh"
    text = script_of(jobs, directory, settings)
    script.write_text(text, encoding="utf-8", errors="surrogateescape")
    sbatch(script)
    return dict(tasks_of(directory))


def new_directory(parent: Path) -> Path:
    """Make the directory of the next array."""
    number = 1 + max(map(number_of, parent.iterdir()), default=0)
    while True:
        directory = parent / str(number)
        with suppress(FileExistsError):  # a sweep of another machine was faster
            directory.mkdir()
            return directory
        number += 1


def script_of(jobs: Sequence[Job], directory: Path, settings: Settings) -> str:
    """Return the batch script of a job array: task N runs ``jobs[N]``."""
    options = {
        "job-name": settings.directory.absolute().name,
        "array": f"0-{len(jobs) - 1}%{settings.jobs}",
        "cpus-per-task": str(settings.cpus or 1),
        "signal": "TERM@120",
        "open-mode": "append",
        "output": str(directory).replace("%", "%%") + "/%a.log",  # %a: the number of the task
    }
    chosen = {**options, **settings.slurm}
    lines = [f"#SBATCH --{name}={shlex.quote(value)}" for name, value in chosen.items()]
    return SCRIPT.format(
        options="\n".join([*lines, "#SBATCH --requeue"]),
        codes=shlex.quote(str(directory)),
        threads=settings.cpus or '"${OMP_NUM_THREADS:-1}"',
        cases="\n".join(case_of(number, job) for number, job in enumerate(jobs)),
    )


def case_of(number: int, job: Job) -> str:
    """Return the lines of the script that run a job."""
    variables = [f"export {name}={shlex.quote(text)}" for name, text in job.environment.items()]
    command = f"run {shlex.quote(str(job.log.absolute()))} {shlex.join(job.command)}"
    return "\n".join([f"{number})", *(f"  {line}" for line in (*variables, command)), "  ;;"])


def sbatch(script: Path) -> None:
    """Submit a script; its job id is then in the file ``id`` next to it.

    Raises UserError if SLURM refuses it.
    """
    with script.with_name("id").open("wb") as file:
        with suppress(OSError):  # a file system without locks
            # `sbatch` inherits the lock, and releases it by its end: see `tasks_of`
            fcntl.flock(file, fcntl.LOCK_EX)
        command = ["sbatch", "--parsable", str(script)]
        result = subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    if result.returncode:
        said = " ".join(result.stderr.replace("sbatch: error: ", "").split())
        raise UserError(f"--engine slurm: sbatch refuses {script}: {said}")


def saved_tasks(directory: Path) -> Iterator[tuple[str, Task]]:
    """Yield the tasks that were submitted, with their names; the newest last."""
    for array in sorted(directory.glob("*"), key=number_of):
        yield from tasks_of(array)


def tasks_of(array: Path) -> list[tuple[str, Task]]:
    """Return the tasks of an array, with their names; none if it was not submitted."""
    file = array / "id"
    try:
        with hold(file, wait=True):  # until the `sbatch` of a killed sweep has ended
            job = file.read_text(encoding="utf-8").strip().partition(";")[0]
        saved = read_json(array / "jobs.json")
    except (OSError, ValueError):
        return []
    if not job:  # `sbatch` has failed
        return []
    return [
        (each["name"], Task(f"{job}_{n}", tuple(each["command"]), array / f"{n}.code"))
        for n, each in enumerate(saved)
    ]


def number_of(path: Path) -> int:
    """Return the number of an array's directory; 0 for another name."""
    return int(path.name) if path.name.isdecimal() else 0


def ids_in_queue() -> set[str]:
    """Return the ids of this user's queued and running tasks.

    Raises UserError if SLURM does not answer.
    """
    result = ask("squeue", "--me", "--array", "--noheader", "--format=%i")
    if result.returncode:
        said = " ".join(result.stderr.split())
        raise UserError(f"--engine slurm: squeue does not answer: {said}; try again later")
    return set(result.stdout.split())


def ask(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of SLURM. A Ctrl-C does not reach it."""
    return subprocess.run(command, capture_output=True, text=True, start_new_session=True)
