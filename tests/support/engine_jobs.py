"""Jobs for an engine, each a process that waits for the test."""

import sys
from collections.abc import Callable
from pathlib import Path

from multitask.sweep.engines.base import Job

# on SIGTERM it saves and ends with 75; otherwise it ends with the code in `go`, a signal below 0
RUN = """
import os, signal, sys, time
from pathlib import Path
directory = Path(sys.argv[1])
def save(*_):
    print("saved", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
directory.mkdir(exist_ok=True)
print("begun", os.environ.get("OF_THE_JOB"), os.environ["OMP_NUM_THREADS"], flush=True)
while not (directory / "go").exists():
    time.sleep(0.05)
code = int((directory / "go").read_text())
os.kill(os.getpid(), -code) if code < 0 else sys.exit(code)
"""


def job_of(sweep: Path, name: str) -> Job:
    """A job, with a variable whose value needs quotes."""
    directory = sweep / name
    command = (sys.executable, "-c", RUN, str(directory))
    log = sweep / f"{name}.log"
    return Job(name, command, log, directory, {"OF_THE_JOB": f"a 'word' of {name}"})


def let_end(job: Job, code: int = 0) -> None:
    """Let a job end with this code."""
    job.directory.mkdir(exist_ok=True)
    (job.directory / "next").write_text(str(code))
    (job.directory / "next").rename(job.directory / "go")


def begun(job: Job, times: int = 1) -> Callable[[], bool]:
    """True once a job has begun so many times."""
    return lambda: job.log.exists() and job.log.read_text().count("\nbegun ") >= times
