"""The processes of a sweep: each trains a run, several at once."""

import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from multitask.sweep.progress_bars import Progress
from multitask.sweep.sweep_directory import (
    Failure,
    Run,
    error_line,
    mean_score,
)
from multitask.utils.errors import TryAgain
from multitask.utils.files import open_to_append
from multitask.utils.owner import Busy, holder, owned
from multitask.utils.signals import on_signal

PROGRAM = Path(__file__).parents[2] / "run_multitask.py"
TICK = 0.5  # seconds between two checks of the processes and locks
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass
class Child:
    """A run that is being trained.

    Attributes:
        run: the run.
        process: its ``train`` command.
        held: the lock that keeps other sweeps from starting it, too.
        began: the clock when the process started.
    """

    run: Run
    process: subprocess.Popen[bytes]
    held: ExitStack
    began: float = field(default_factory=time.monotonic)


@dataclass
class Pool:
    """The pending and the running runs of a sweep.

    Attributes:
        slots: the largest number of processes at once.
        keep_weights: keep the weights of finished runs.
        progress: shows the progress.
        pending: runs that are not started.
        failed: runs that have failed.
        running: runs that are being trained.
        _waited_for: names of runs that other processes own, which were printed already.
    """

    slots: int
    keep_weights: bool
    progress: Progress
    pending: list[Run]
    failed: list[Failure]
    running: list[Child] = field(default_factory=list)
    _waited_for: set[str] = field(default_factory=set)

    def fill(self) -> None:
        """Start pending runs that are free, and drop those that other processes have finished."""
        owners = {}
        for run in list(self.pending):
            if len(self.running) == self.slots:
                break
            if run.settled:
                self.pending.remove(run)
                self.progress.settled(run.name, f"{mean_score(run)} (by another process)")
            elif owner := run.owner:
                owners[run.name] = owner
            elif child := self._start(run):
                self.pending.remove(run)
                self.running.append(child)
        self._say_owned(owners)

    def reap(self) -> None:
        """Take down the runs whose processes have ended."""
        for child in list(self.running):
            run, code = child.run, child.process.poll()
            if code is None:
                continue
            self.running.remove(child)
            child.held.close()
            if code <= 0 and run.settled:  # below 0: killed when all was done
                seconds = time.monotonic() - child.began
                self.progress.settled(run.name, f"{mean_score(run)} ({seconds:.0f} s)")
            elif code == TryAgain.exit_code or (code < 0 and run.finished):
                self.pending.append(run)
            else:
                failure = Failure(run, error_line(run.log, code))
                self.failed.append(failure)
                self.progress.settled(run.name, f"failed: {failure.reason}; log: {run.log}")

    def stop(self) -> None:
        """Let every process save its state and end; a second Ctrl-C kills them."""
        for child in self.running:
            child.process.terminate()
        try:
            for child in self.running:
                child.process.wait()
        finally:
            for child in self.running:
                child.process.kill()
                child.process.wait()
                child.held.close()

    def _start(self, run: Run) -> Child | None:
        """Start a run; return None if another process was faster."""
        with ExitStack() as held:
            try:
                held.enter_context(owned(run.start_lock, "starts the run"))
            except Busy:
                return None
            if run.settled or holder(run.files.lock):
                return None
            process = start(run, self.slots, keep_weights=self.keep_weights)
            return Child(run, process, held.pop_all())

    def _say_owned(self, owners: Mapping[str, str]) -> None:
        new = {name: owner for name, owner in owners.items() if name not in self._waited_for}
        if new:
            self._waited_for.update(new)
            names = ", ".join(f"{name} ({owner})" for name, owner in new.items())
            self.progress.say(f"held by other processes, to be waited for: {names}")


def train_all(
    runs: Sequence[Run],
    progress: Progress,
    failed: list[Failure],
    *,
    slots: int,
    keep_weights: bool,
) -> None:
    """Train every run that is not finished, and wait for those that other processes own.

    Failures are added to ``failed``.

    Raises KeyboardInterrupt after every process of this sweep has saved its state and ended.
    """
    pending = [run for run in runs if not run.settled]
    progress.skipped(len(runs) - len(pending))
    for run in pending:
        run.log.parent.mkdir(parents=True, exist_ok=True)
    pool = Pool(slots, keep_weights, progress, pending, failed)
    asked: list[bool] = []
    # the loop checks `asked`, as an exception in the middle of a fork would be lost
    with on_signal(lambda: asked.append(True)):
        try:
            while True:
                pool.reap()
                pool.fill()
                if not pool.running and not pool.pending:
                    return
                if asked:
                    raise KeyboardInterrupt
                progress.show([(c.run.name, c.run.directory) for c in pool.running])
                time.sleep(TICK)
        finally:
            pool.stop()


def start(run: Run, slots: int, *, keep_weights: bool) -> subprocess.Popen[bytes]:
    """Start a run's process, which resumes from the last checkpoint if there is one."""
    options = [] if keep_weights else ["--discard-weights"]
    options += ["--resume"] if run.files.holds_run else []
    command = [sys.executable, str(PROGRAM), *run.arguments, *options]
    when = datetime.now().astimezone().isoformat(timespec="seconds")
    parent = os.getpid()

    def die_with_parent() -> None:
        """Ask for SIGTERM, on which a run saves its state, if the sweep is killed (Linux only)."""
        if _LIBC is not None:
            _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

    with open_to_append(run.log) as log:
        line = f"# start {when} on {socket.gethostname()}: {shlex.join(command)}\n"
        log.write(line.encode(errors="surrogateescape"))  # a path may not be UTF-8
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(slots),
            start_new_session=True,  # Ctrl-C reaches it through `stop` alone
            preexec_fn=die_with_parent,
        )


def environment(slots: int) -> dict[str, str]:
    """Return a run's environment: an equal share of the cores, unless the user has set it.

    With one run at a time, torch chooses the number of threads.
    """
    variables = dict(os.environ)
    if slots > 1 and "OMP_NUM_THREADS" not in variables:
        allowed = getattr(os, "sched_getaffinity", None)
        cores = len(allowed(0)) if allowed else os.cpu_count() or 1
        variables["OMP_NUM_THREADS"] = str(max(1, cores // slots))
    return variables
