"""The runs of a sweep and the engine that trains them: submit runs and return how they end."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from multitask.store.files import open_to_append
from multitask.sweep.engines.base import Engine, Job, Settings, load_engine
from multitask.sweep.progress_bars import Progress
from multitask.sweep.sweep_directory import Failure, Run, error_line, mean_score
from multitask.utils.errors import TryAgain
from multitask.utils.names import KERNELS_VARIABLE, MODULES_VARIABLE, SWEEP_VARIABLE
from multitask.utils.signals import on_signal

PROGRAM = Path(__file__).parents[2] / "run_multitask.py"
TICK = 0.5  # seconds between two looks at the engine and the locks
LATE = 90.0  # seconds until a report must be visible here: NFS may show it a minute late
PAUSE = 10.0  # seconds until a run starts again that was interrupted or locked
RESTARTS = 3  # how often a run is submitted again after a signal or a lost node


@dataclass
class Attempt:
    """A run that is not finished yet.

    Attributes:
        run: the run.
        began: the clock when it was submitted last.
        ended: the clock when its command ended last.
        restarts: how often it was submitted again after a signal or a lost node.
        not_before: the clock when it may be submitted again.
    """

    run: Run
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    restarts: int = 0
    not_before: float = 0.0

    @property
    def took(self) -> str:
        return f"{self.ended - self.began:.0f} s"


class Ended(NamedTuple):
    """A run that has left the pool.

    Attributes:
        run: the run.
        how: the time that it took, such as ``12 s``.
        failure: why it has no report; empty for a finished run.
    """

    run: Run
    how: str
    failure: str = ""


@dataclass
class Pool:
    """The runs of a sweep, and the engine that trains them.

    Attributes:
        engine: the engine.
        settings: what the engine was asked for.
        keep_weights: keep the weights of finished runs.
        progress: shows the progress.
        pending: runs that are not in the engine.
        running: runs in the engine, by name.
        late: runs whose command ended well and whose report is not visible here yet.
        dropped: names of runs that were cancelled for good.
        waited_for: names of runs that other processes hold, which were printed already.
        interrupted: True after Ctrl-C or SIGTERM.
    """

    engine: Engine
    settings: Settings
    keep_weights: bool
    progress: Progress
    pending: list[Attempt] = field(default_factory=list)
    running: dict[str, Attempt] = field(default_factory=dict)
    late: list[Attempt] = field(default_factory=list)
    waited_for: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    interrupted: bool = False

    @property
    def open(self) -> int:
        """The number of runs that are not finished, failed or dropped."""
        return len(self.pending) + len(self.running) + len(self.late)

    def add(self, run: Run) -> None:
        """Let a run wait for its start."""
        run.log.parent.mkdir(parents=True, exist_ok=True)
        self.pending.append(Attempt(run))

    def drop(self, name: str) -> None:
        """Cancel a run in the engine for good; ``look`` returns it when it has ended."""
        self.dropped.add(name)
        self.engine.cancel([name])

    def attach(self) -> None:
        """Take over the runs that an earlier start has left in the engine."""
        self.engine.attach([self._job(attempt.run) for attempt in self.pending])
        names = self.engine.running()
        self.running = {each.run.name: each for each in self.pending if each.run.name in names}
        self.pending = [each for each in self.pending if each.run.name not in names]

    def look(self) -> list[Ended]:
        """Submit what is free, and return the runs that have ended since the last call."""
        return [*self._reap(), *self._fill()]

    def wait(self) -> None:
        """Show the progress and wait a moment. Raises KeyboardInterrupt after a signal."""
        if not self.interrupted:
            self.progress.show([(a.run.name, a.run.directory) for a in self.running.values()])
            time.sleep(TICK)
        if self.interrupted:  # now, as an exception in the middle of a fork would be lost
            raise KeyboardInterrupt

    def _fill(self) -> list[Ended]:
        """Submit pending runs that are free; return those that other processes have finished."""
        pending = list(self.pending)
        free = self.settings.slots - len(self.running)
        slots = len(pending) if self.engine.queues else free
        jobs: list[Job] = []
        ended: list[Ended] = []
        held: list[Run] = []
        for attempt in pending:
            run = attempt.run
            if len(jobs) == slots:
                break
            if run.settled:
                self.pending.remove(attempt)
                ended.append(Ended(run, "by another process"))
            elif run.owner:
                held.append(run)
            elif time.monotonic() >= attempt.not_before:
                self.pending.remove(attempt)
                open_to_append(run.log).close()  # raises UserError for a link
                attempt.began = time.monotonic()
                self.running[run.name] = attempt
                jobs.append(self._job(run))
        if jobs:
            self.engine.submit(jobs)
        if new := [run for run in held if run.name not in self.waited_for]:
            self.waited_for.update(run.name for run in new)
            names = ", ".join(f"{run.name} ({run.owner})" for run in new)
            self.progress.say(f"held by other processes, to be waited for: {names}")
        return ended

    def _reap(self) -> list[Ended]:
        """Return the runs whose command has ended and that do not start again."""
        ended = []
        for name, code in self.engine.ended().items():
            attempt = self.running.pop(name)
            attempt.ended = time.monotonic()
            if name in self.dropped:
                ended.append(Ended(attempt.run, attempt.took, "cancelled"))
            elif code == 0:
                self.late.append(attempt)
            elif not self._again(attempt, code):
                ended.append(Ended(attempt.run, attempt.took, error_line(attempt.run.log, code)))
        for attempt in list(self.late):
            finished = attempt.run.finished
            if finished or time.monotonic() > attempt.ended + LATE:
                self.late.remove(attempt)
                lost = f"no report.json {LATE:.0f} s after the end of its process"
                ended.append(Ended(attempt.run, attempt.took, "" if finished else lost))
        return ended

    def stop(self) -> None:
        """Let every run save its state and end."""
        self.engine.cancel(self.engine.running())
        while self.engine.running():
            self.engine.ended()
            time.sleep(TICK)

    def _again(self, attempt: Attempt, code: int) -> bool:
        """Let a run start again that was interrupted or killed; return False if it has failed."""
        if code == TryAgain.exit_code:
            attempt.not_before = attempt.ended + PAUSE
        elif code < 0 and attempt.restarts < RESTARTS:
            attempt.restarts += 1
            again = f"start {1 + attempt.restarts} of {1 + RESTARTS} follows"
            said = error_line(attempt.run.log, code)
            self.progress.say(f"{attempt.run.name}: {said}; {again}")
        else:
            return False
        self.pending.append(attempt)
        return True

    def _job(self, run: Run) -> Job:
        """Return the command of a run, which resumes from the last checkpoint if there is one."""
        options = ["--resume", *([] if self.keep_weights else ["--discard-weights"])]
        return Job(
            name=run.name,
            command=(sys.executable, str(PROGRAM), *run.arguments, *options),
            log=run.log,
            directory=run.directory,
            environment=variables(self.settings.directory),
        )


def train_all(
    runs: Sequence[Run],
    progress: Progress,
    failed: list[Failure],
    *,
    engine: str,
    settings: Settings,
    keep_weights: bool,
) -> None:
    """Train every run that is not finished, and wait for those that other processes hold.

    Failures are added to ``failed``. With ``settings.detach`` the runs are only submitted.

    Raises:
        KeyboardInterrupt: after every process of this sweep has saved its state and ended. A second
            Ctrl-C kills those of this machine.
        UserError: the engine is not installed, or cannot run the jobs.
    """
    pending = [run for run in runs if not run.settled]
    progress.skipped(len(runs) - len(pending))
    if not pending:
        return
    pool = Pool(load_engine(engine, settings), settings, keep_weights, progress)
    for run in pending:
        pool.add(run)
    with working(pool):
        while True:
            for ended in pool.look():
                if ended.failure:
                    failed.append(Failure(ended.run, ended.failure))
                    progress.settled(ended.run.name, failed[-1].shown)
                else:
                    progress.settled(ended.run.name, f"{mean_score(ended.run)} ({ended.how})")
            if not pool.open or settings.detach:
                break
            pool.wait()
    if pool.running:
        progress.say(f"{len(pool.running)} runs are in the queue of {engine}")


@contextmanager
def working(pool: Pool) -> Iterator[None]:
    """Let the engine of a pool work during a block, and free it at the end.

    After an exception from the block every run saves its state and ends. The first Ctrl-C or
    SIGTERM lets ``Pool.wait`` raise KeyboardInterrupt.
    """

    def interrupt() -> None:
        pool.interrupted = True

    with on_signal(interrupt):
        try:
            pool.attach()
            yield
        except BaseException:
            pool.stop()
            raise
        finally:
            pool.engine.close()


def variables(directory: Path) -> dict[str, str]:
    """Return the variables that all runs of the sweep in a directory have.

    A node of a cluster may not get those of this process.
    """
    names = (KERNELS_VARIABLE, MODULES_VARIABLE)
    same = {name: os.environ[name] for name in names if os.environ.get(name)}
    return {SWEEP_VARIABLE: directory.absolute().name, **same}
