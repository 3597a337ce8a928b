"""The loop of a sweep: submit runs to an engine and see how they end."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from multitask.sweep.engines.base import Engine, Job, Settings, load_engine
from multitask.sweep.progress_bars import Progress
from multitask.sweep.sweep_directory import Failure, Run, error_line, mean_score
from multitask.utils.errors import TryAgain
from multitask.utils.files import open_to_append
from multitask.utils.names import KERNELS_VARIABLE, MODULES_VARIABLE, SWEEP_VARIABLE
from multitask.utils.owner import Busy, holder, owned
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
        held: the lock that keeps other sweeps from starting it, too.
    """

    run: Run
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    restarts: int = 0
    not_before: float = 0.0
    held: ExitStack = field(default_factory=ExitStack)

    def take(self) -> bool:
        """Lock the start of the run until its end; return False if another sweep was faster."""
        try:
            self.held.enter_context(owned(self.run.start_lock, "starts the run"))
        except Busy:
            return False
        if self.run.settled or holder(self.run.files.lock):
            self.held.close()
            return False
        return True


@dataclass
class Pool:
    """The runs of a sweep, and the engine that trains them.

    Attributes:
        engine: the engine.
        settings: what the engine was asked for.
        keep_weights: keep the weights of finished runs.
        progress: shows the progress.
        failed: runs that have failed.
        pending: runs that are not in the engine.
        running: runs in the engine, by name.
        late: runs whose command ended well and whose report is not visible here yet.
        dropped: names of runs that were cancelled for good.
        result: is called with each run that is finished; returns its score, for the progress.
        waited_for: names of runs that other processes hold, which were printed already.
    """

    engine: Engine
    settings: Settings
    keep_weights: bool
    progress: Progress
    failed: list[Failure]
    pending: list[Attempt] = field(default_factory=list)
    running: dict[str, Attempt] = field(default_factory=dict)
    late: list[Attempt] = field(default_factory=list)
    waited_for: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    result: Callable[[Run], str] = mean_score

    @property
    def done(self) -> bool:
        return not self.open

    @property
    def open(self) -> int:
        """The number of runs that are not finished, failed or dropped."""
        return len(self.pending) + len(self.running) + len(self.late)

    def add(self, run: Run) -> None:
        """Let a run wait for its start."""
        run.log.parent.mkdir(parents=True, exist_ok=True)
        self.pending.append(Attempt(run))

    def drop(self, name: str) -> None:
        """Cancel a run in the engine for good."""
        self.dropped.add(name)
        self.engine.cancel([name])

    def attach(self) -> None:
        """Take over the runs that an earlier start has left in the engine."""
        self.engine.attach([self._job(attempt.run) for attempt in self.pending])
        names = self.engine.running()
        self.running = {each.run.name: each for each in self.pending if each.run.name in names}
        self.pending = [each for each in self.pending if each.run.name not in names]

    def fill(self) -> None:
        """Submit pending runs that are free, and drop those that other processes have finished."""
        slots = len(self.pending) if self.engine.queues else self.settings.slots - len(self.running)
        chosen: list[Attempt] = []
        held: list[Run] = []
        for attempt in self.pending:
            if len(chosen) == slots:
                break
            if not attempt.run.settled and attempt.run.owner:
                held.append(attempt.run)
            elif attempt.run.settled or time.monotonic() >= attempt.not_before:
                chosen.append(attempt)
        jobs = []
        for attempt in chosen:
            if attempt.run.settled:
                self.pending.remove(attempt)
                self._settle(attempt.run, "by another process")
                continue
            # a queue may have more runs than a process may open files, and knows what it has
            if not self.engine.queues and not attempt.take():
                continue
            self.pending.remove(attempt)
            open_to_append(attempt.run.log).close()  # raises UserError for a link
            attempt.began = time.monotonic()
            self.running[attempt.run.name] = attempt
            jobs.append(self._job(attempt.run))
        if jobs:
            self.engine.submit(jobs)
        self._say_held(held)

    def reap(self) -> None:
        """See to the runs that have ended."""
        for name, code in self.engine.ended().items():
            attempt = self.running.pop(name)
            attempt.held.close()
            self._see_to(attempt, code)
        for attempt in list(self.late):
            if attempt.run.finished:
                self.late.remove(attempt)
                self._settle(attempt.run, f"{attempt.ended - attempt.began:.0f} s")
            elif time.monotonic() > attempt.ended + LATE:
                self.late.remove(attempt)
                self._fail(attempt.run, f"no report.json {LATE:.0f} s after the end of its process")

    def stop(self) -> None:
        """Let every run save its state and end."""
        self.engine.cancel(self.engine.running())
        while self.engine.running():
            self.engine.ended()
            time.sleep(TICK)

    def show(self) -> None:
        """Update the progress bars."""
        self.progress.show([(a.run.name, a.run.directory) for a in self.running.values()])

    def _see_to(self, attempt: Attempt, code: int) -> None:
        """Let a run whose command has ended wait for its report or its next start, or fail."""
        run, attempt.ended = attempt.run, time.monotonic()
        if run.name in self.dropped:
            return
        if code == 0:
            self.late.append(attempt)
        elif code == TryAgain.exit_code:
            attempt.not_before = attempt.ended + PAUSE
            self.pending.append(attempt)
        elif code < 0 and attempt.restarts < RESTARTS:
            attempt.restarts += 1
            self.pending.append(attempt)
            again = f"start {1 + attempt.restarts} of {1 + RESTARTS} follows"
            self.progress.say(f"{run.name}: {error_line(run.log, code)}; {again}")
        else:
            self._fail(run, error_line(run.log, code))

    def _settle(self, run: Run, how: str) -> None:
        self.progress.settled(run.name, f"{self.result(run)} ({how})")

    def _fail(self, run: Run, reason: str) -> None:
        self.failed.append(Failure(run, reason))
        self.progress.settled(run.name, f"failed: {reason}; log: {run.log}")

    def _say_held(self, held: Sequence[Run]) -> None:
        new = [run for run in held if run.name not in self.waited_for]
        if new:
            self.waited_for.update(run.name for run in new)
            names = ", ".join(f"{run.name} ({run.owner})" for run in new)
            self.progress.say(f"held by other processes, to be waited for: {names}")

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
    pool = Pool(load_engine(engine, settings), settings, keep_weights, progress, failed=failed)
    for run in pending:
        pool.add(run)
    work(pool)
    if settings.detach and pool.running:
        progress.say(f"{len(pool.running)} runs are in the queue of {engine}")


def work(pool: Pool, refill: Callable[[], None] = lambda: None) -> None:
    """Train the runs of a pool until none is open. With ``settings.detach``, only submit them.

    ``refill`` is called again and again; it may add and drop some.

    Raises KeyboardInterrupt as ``train_all``.
    """
    asked: list[bool] = []
    # the loop checks `asked`, as an exception in the middle of a fork would be lost
    with on_signal(lambda: asked.append(True)):
        try:
            pool.attach()
            while not asked:
                pool.reap()
                pool.fill()
                refill()  # last: runs that `fill` drops as finished leave room
                if pool.done or pool.settings.detach:
                    return
                pool.show()
                time.sleep(TICK)
            raise KeyboardInterrupt
        except BaseException:
            pool.stop()
            raise
        finally:
            pool.engine.close()
            for attempt in pool.running.values():
                attempt.held.close()


def variables(directory: Path) -> dict[str, str]:
    """Return the variables that all runs of the sweep in a directory have.

    A node of a cluster may not get those of this process.
    """
    names = (KERNELS_VARIABLE, MODULES_VARIABLE)
    same = {name: os.environ[name] for name in names if os.environ.get(name)}
    return {SWEEP_VARIABLE: directory.absolute().name, **same}
