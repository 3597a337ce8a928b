# Tested by tests/sweep/engines/test_slurm.py
"""A job array of SLURM: its script, how it is submitted, and its tasks.

Its files are in the sweep's directory, in ``slurm/N``:

- ``script.sh``: what SLURM runs;
- ``jobs.json``: the names and commands of the array's tasks, in their order;
- ``id``: what ``sbatch`` said, with the job id. ``sbatch`` writes it, so that it is saved even if
  the sweep is killed then;
- ``TASK.code``: the exit code of a task. The script writes it, so the cluster needs no accounting;
- ``TASK.log``: what SLURM says about a task, for example that its time is over;
- ``TASK.idle``: a line for each start that was ended before the run got any further.
"""

import fcntl
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multitask.store.files import read_json, write_json
from multitask.sweep.engines.base import Job, Settings
from multitask.utils.errors import UserError, one_line

LEAD = 120  # seconds between SIGTERM and the end of a task's time
UNSEEN = 66  # a task's exit code if its node does not see the directories
ID = re.compile(r"(?:Submitted batch job )?(\d+)(?:;\S+)?")  # in what `sbatch` says
# variables of the allocation in which the sweep was started, and personal defaults of `squeue` and
# `scancel`; those that say how to reach SLURM stay
INHERITED = re.compile("(SLURM|SLURMD|SRUN|SQUEUE|SCANCEL|PMI|PMIX)_.*|SBATCH_WAIT")
CLIENT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")

SCRIPT = """\
#!/bin/bash
# {sbatch}
codes={codes}
task=$SLURM_ARRAY_TASK_ID
node=${{SLURMD_NODENAME:-$(hostname)}}
if [ ! -e "$codes/jobs.json" ] || ! cd {here}; then
  exit {unseen}
fi
# `run DIRECTORY LOG COMMAND` runs a command of the sweep and appends its output to LOG.
run() {{
  metrics=$1/metrics.jsonl
  log=$2
  shift 2
  echo "# start $(date -Iseconds) on $node:$(printf ' %q' "$@")" >>"$log"
  said=$(wc -c <"$log")
  trained=$(cat "$metrics" 2>/dev/null | wc -c)
  # the inner shell: what srun itself says is not the command's output
  srun --export=ALL --nodes=1 --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \\
    bash -c {inner} setup "$log" "$@"
  code=$?
  if [ $code -gt 0 ] && [ $code -lt 128 ] && [ "$(wc -c <"$log")" = "$said" ]; then
    echo "exit code $code, and nothing said on $node, but" \\
      "$codes/$task.log: $(tail -n 2 "$codes/$task.log" | tr '\\n' ' ')" >>"$log"
  fi
}}

rm -f "$codes/$task.code"
export OMP_NUM_THREADS={threads}
case $task in
{cases}
esac
# 75: the state is saved, for example because the time is over. 143: SIGTERM came before there was
# anything to save. Go on later, but not for ever.
if [ $code = 75 ] || [ $code = 143 ]; then
  if [ "$(cat "$metrics" 2>/dev/null | wc -c)" = "$trained" ]; then
    echo "$node" >>"$codes/$task.idle"
  else
    rm -f "$codes/$task.idle"
  fi
  if [ "$(cat "$codes/$task.idle" 2>/dev/null | wc -l)" -ge 3 ]; then
    rm "$codes/$task.idle"
    echo "error: SLURM has ended three starts before the run got any further: give it a longer" \\
      "time limit (--slurm time=...), or a partition without preemption" >>"$log"
    code=2
  elif scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$task"; then
    exit $code
  fi
fi
echo $code >"$codes/$task.code"
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


def submit_array(
    jobs: Sequence[Job], parent: Path, settings: Settings, *, setup: str, after: str
) -> dict[str, Task]:
    """Submit jobs as an array, and return its tasks by name.

    Args:
        jobs: the jobs, at most ``MaxArraySize``.
        parent: the directory of all arrays.
        settings: what the engine was asked for.
        setup: lines of bash to run before each command.
        after: a dependency on the array before it, such as ``afterany:4711``; empty: none.

    Raises:
        UserError: SLURM refuses it.
    """
    directory = parent / str(1 + max(map(number_of, parent.iterdir()), default=0))
    directory.mkdir()
    saved = [{"name": job.name, "command": job.command} for job in jobs]
    write_json(directory / "jobs.json", saved)
    script = directory / "script.sh"
    command = ["sbatch", "--parsable", *options_of(directory, len(jobs), settings, after)]
    text = script_of(jobs, directory, settings, command=command, setup=setup)
    script.write_text(text, encoding="utf-8", errors="surrogateescape")
    sbatch([*command, str(script)], directory / "id")
    return dict(tasks_of(directory))


def options_of(directory: Path, count: int, settings: Settings, after: str) -> list[str]:
    """Return the options of ``sbatch`` for an array of so many tasks.

    They are not in the script, where variables such as ``SBATCH_PARTITION`` would replace them.
    """
    limit = f"%{settings.jobs}" if settings.jobs else ""
    options = {
        "job-name": settings.directory.absolute().name,
        "array": f"0-{count - 1}{limit}",
        "cpus-per-task": str(settings.cpus or 1),
        "signal": f"TERM@{LEAD}",
        "requeue": "",
        "open-mode": "append",
        "output": str(directory).replace("%", "%%") + "/%a.log",  # %a: the number of the task
        **settings.slurm,
    }
    if after:
        options["dependency"] = ",".join(filter(None, (options.get("dependency"), after)))
    return [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]


def script_of(
    jobs: Sequence[Job], directory: Path, settings: Settings, *, command: Sequence[str], setup: str
) -> str:
    """Return the batch script of a job array: task N runs ``jobs[N]``."""
    cases = []
    for number, job in enumerate(jobs):
        exports = [f"  export {name}={shlex.quote(text)}" for name, text in job.environment.items()]
        places = shlex.join([str(job.directory.absolute()), str(job.log.absolute())])
        cases += [f"{number})", *exports, f"  run {places} {shlex.join(job.command)}", "  ;;"]
    return SCRIPT.format(
        sbatch=one_line(shlex.join(command)),
        codes=shlex.quote(str(directory)),
        here=shlex.quote(str(Path.cwd())),
        unseen=UNSEEN,
        inner=shlex.quote(f'exec >>"$1" 2>&1\nshift\n{setup}\nexec "$@"'),
        threads=settings.cpus or '"${OMP_NUM_THREADS:-1}"',
        cases="\n".join(cases),
    )


def sbatch(command: Sequence[str], file: Path) -> None:
    """Submit a job; what ``sbatch`` says, with the id, is then in the file.

    Raises UserError if SLURM refuses it, or there is no id.
    """
    with file.open("wb") as opened:
        with suppress(OSError):  # a file system without locks
            # `sbatch` inherits the lock, and releases it by its end: see `tasks_of`
            fcntl.flock(opened, fcntl.LOCK_EX)
        result = ask(*command, stdout=opened)
    output = file.read_text(encoding="utf-8", errors="replace")
    said = one_line(f"{output} {result.stderr.replace('sbatch: error: ', '')}")
    if result.returncode:
        raise UserError(f"--engine slurm: sbatch refuses {file.with_name('script.sh')}: {said}")
    if job_id(output) is None:
        raise UserError(
            f"--engine slurm: sbatch names no job id, so its job is unknown here (look for it with "
            f"`squeue --me`, end it with `scancel`): it says: {said or 'nothing'}"
        )


def job_id(output: str) -> str | None:
    """Return the job id in what ``sbatch`` said, among lines of a site's banner; None without."""
    matches = [ID.fullmatch(line.strip()) for line in output.splitlines()]
    return next((match[1] for match in reversed(matches) if match), None)


def tasks_of(array: Path) -> list[tuple[str, Task]]:
    """Return the tasks of an array, with their names; none if it was not submitted."""
    try:
        with (array / "id").open("rb") as opened:
            with suppress(OSError):  # a file system without locks
                # wait until the `sbatch` of a killed sweep has ended. Shared, as NFS gives an
                # exclusive lock only on a file that is opened to write
                fcntl.flock(opened, fcntl.LOCK_SH)
            job = job_id(opened.read().decode("utf-8", "replace"))
        saved = read_json(array / "jobs.json")
    except (OSError, ValueError):
        return []
    if job is None:  # `sbatch` has failed
        return []
    return [
        (each["name"], Task(f"{job}_{n}", tuple(each["command"]), array / f"{n}.code"))
        for n, each in enumerate(saved)
    ]


def number_of(path: Path) -> int:
    """Return the number of an array's directory; 0 for another name."""
    return int(path.name) if path.name.isdecimal() else 0


def variables() -> dict[str, str]:
    """Return this process's variables without those of the allocation in which it runs."""
    inside = DEVICES if "SLURM_JOB_ID" in os.environ else ()
    return {
        name: value
        for name, value in os.environ.items()
        if name in CLIENT or not (INHERITED.fullmatch(name) or name in inside)
    }


def ask(*command: str, stdout: Any = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run a command of SLURM. A Ctrl-C does not reach it."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=variables(),
        start_new_session=True,
    )
