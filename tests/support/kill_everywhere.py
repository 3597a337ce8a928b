"""Kill a command at many moments, repeat it, and say where the outcome differs.

    python -m tests.support.kill_everywhere PLAN.json

The plan is a JSON object:

- ``first``: the command that is killed; ``again``: the one that goes on.
- ``watch``: the directory whose file operations count; ``before``: what it has at first, or null.
- ``keep``: the files in it that must be as after a run that nobody killed.
- ``every``, ``offset`` and ``last`` (or null): which file operations are tried; or ``clock``: how
  many moments of the clock are drawn at random, with ``offset`` as the seed.
- ``cells``: count the operations of a sweep's cells, not those of the sweep; ``warm``: what a cell
  does; or null.
- ``swap``: false where the system cannot swap two directories.
- ``present``: a file that must be there after every kill; ``reads``: a command before that is
  looked at; or null.
- ``enough``: what the second command may say where the first was killed when all was done; or null.

Prints a JSON object: ``operations``, ``kills`` and ``problems``.

The first run is that of a fresh process. The others are forks of this process, in which the
command has run once, so that libraries are loaded.
"""

import faulthandler
import gc
import hashlib
import io
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tqdm import tqdm

import run_multitask
from multitask.store import files
from multitask.sweep import pool
from multitask.sweep.engines import local

FORK, SPAWN = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
# audit events of what changes files; "open" counts where it writes
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "open"}
WRITES = os.O_WRONLY | os.O_RDWR
HANGS = 120  # seconds after which a fork says where it is, and ends
tqdm.monitor_interval = 0  # no thread in the process that is forked
# tqdm's own lock is shared by all forks: one that is killed inside it would block all later ones
tqdm.set_lock(threading.RLock())


class Operations:
    """Counts the file operations below a directory and kills the process at one of them."""

    def __init__(self, watch: Path, *, cells: bool, kill_at: int | None = None) -> None:
        self.watch, self.cells, self.kill_at = str(watch), cells, kill_at
        self.counting = not cells
        self.count = FORK.Value("i", 0)

    def listen(self) -> None:
        from multitask.training.metric_log import MetricLog

        sys.addaudithook(self.heard)
        self.around(files, "_exchange")
        self.around(MetricLog, "write")

    def around(self, owner: Any, name: str) -> None:
        """Count the moments before and after a function, of which no audit event tells."""
        function = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.one()
            value = function(*arguments, **options)
            self.one()
            return value

        setattr(owner, name, counted)

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CHANGES or not str(arguments[0]).startswith(self.watch):
            return
        if event != "open" or arguments[2] & WRITES:
            self.one()

    def one(self) -> None:
        if self.counting:
            with self.count:
                self.count.value += 1
                now = self.count.value == self.kill_at
            if now:
                os.kill(os.getpid(), signal.SIGKILL)


def cells_are_forks(operations: Operations | None) -> None:
    """Let a sweep start its cells as forks: the libraries are loaded."""

    class Cell(ForkProcess):
        """Has those parts of ``subprocess.Popen`` that a sweep uses."""

        def __init__(
            self, command: list[str], *, stdout: Any, preexec_fn: Callable[[], None], **_: Any
        ) -> None:
            super().__init__()
            self.command, self.log, self.prepare = command[2:], os.dup(stdout.fileno()), preexec_fn
            self.start()
            os.close(self.log)

        def run(self) -> None:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            self.prepare()
            if operations:
                operations.counting = operations.cells
            with os.fdopen(self.log, "a") as log, redirect_stdout(log), redirect_stderr(log):
                code = run_multitask.main(self.command)
            sys.exit(code)

        def poll(self) -> int | None:
            return self.exitcode

        def wait(self) -> None:
            self.join()

    changed = {"Popen": Cell, "DEVNULL": None, "STDOUT": None}
    local.subprocess = SimpleNamespace(**{**vars(subprocess), **changed})
    pool.TICK = 0.02


def run(command: list[str], operations: Operations | None = None) -> dict[str, Any]:
    """Run a command; return its exit code, what it said at last, and its file operations."""
    from multitask.reporting.figures import style

    draw = style.save_figure  # drawing takes long
    style.save_figure = lambda figure, file: draw(style.new_figure(0.1, 0.1), file)
    cells_are_forks(operations)
    if operations:
        operations.listen()
    said = io.StringIO()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            code = run_multitask.main(command)
    finally:
        style.save_figure = draw
    lines = said.getvalue().splitlines()
    count = operations.count.value if operations else 0
    return {"code": code, "said": lines[-1] if lines else "", "operations": count}


def fork(
    command: list[str], operations: Operations | None = None, seconds: float | None = None
) -> tuple[int | None, dict[str, Any] | None]:
    """Run a command in a fork, killed after some seconds; return its status and ``run``'s value."""

    def work() -> None:
        faulthandler.dump_traceback_later(HANGS, exit=True)
        writer.send(run(command, operations))

    reader, writer = FORK.Pipe(duplex=False)
    child = FORK.Process(target=work)
    child.start()
    writer.close()
    if not reader.poll(seconds):
        child.kill()
    try:
        value = reader.recv()
    except EOFError:
        value = None
    child.join()
    return child.exitcode, value


def digests(directory: Path, keep: list[str]) -> dict[str, str]:
    """The SHA-256 of the files that must be the same."""
    result = {}
    for pattern in keep:
        for file in sorted(directory.glob(pattern)):
            if file.is_file():
                name = file.relative_to(directory).as_posix()
                result[name] = hashlib.sha256(content(file)).hexdigest()
    return result


def content(file: Path) -> bytes:
    """The bytes of a file; of a sweep's table without the last columns, which are times."""
    lines = file.read_bytes().splitlines(keepends=True)
    if file.name == "table.csv" and b",epoch_seconds" in lines[0]:
        times = lines[0].partition(b",epoch_seconds")[2].count(b",") + 1
        lines = [line.rsplit(b",", times)[0] for line in lines]
    return b"".join(lines)


class Trial:
    """A plan, and what the command leaves when nobody kills it."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan, self.watch = plan, Path(plan["watch"])
        if not plan["swap"]:
            files._exchange = lambda made, target: False
        self.begin()
        fresh = SPAWN.Process(target=run, args=(plan["first"],))
        fresh.start()
        fresh.join()
        assert fresh.exitcode == 0
        self.expected = digests(self.watch, plan["keep"])
        assert self.expected, "no file is compared"
        self.begin()
        for command in (plan["first"], plan["warm"]):  # load the libraries
            if command:
                run(command)
        gc.freeze()
        self.begin()
        began = time.monotonic()
        _, ended = fork(plan["first"], self.operations())
        self.seconds = time.monotonic() - began
        assert ended and ended["code"] == 0, ended
        assert self.differing() == [], "not as in a fresh process"
        self.count = ended["operations"]

    def begin(self) -> None:
        """Make the watched directory as it is before the command."""
        shutil.rmtree(self.watch, ignore_errors=True)
        self.watch.mkdir(parents=True)
        if self.plan["before"]:
            shutil.copytree(self.plan["before"], self.watch, dirs_exist_ok=True)

    def operations(self, kill_at: int | None = None) -> Operations:
        return Operations(self.watch, cells=self.plan["cells"], kill_at=kill_at)

    def differing(self) -> list[str]:
        """The files that are not as they must be."""
        after = digests(self.watch, self.plan["keep"])
        return [name for name, digest in self.expected.items() if after.get(name) != digest]

    def killed(self, number: int | None, seconds: float | None) -> str | None:
        """Run and kill the command; say if it ended otherwise."""
        self.begin()
        status, ended = fork(self.plan["first"], self.operations(number), seconds)
        if self.plan["cells"] and ended and (not ended["code"] or "runs failed" in ended["said"]):
            return None  # a cell was killed, not the sweep; code 0: after it wrote its report
        return None if status == -signal.SIGKILL else f"not killed: {status}, {ended}"

    def problem(self) -> str | None:
        """Read what the kill has left, and repeat the command; say what is wrong."""
        read = fork(self.plan["reads"])[1] if self.plan["reads"] else None
        if read and "is missing" in read["said"]:
            return f"read: {read}"
        if self.plan["present"] and not (self.watch / self.plan["present"]).exists():
            return f"{self.plan['present']} is gone"
        status, ended = fork(self.plan["again"])
        differing = self.differing()
        enough = self.plan["enough"] and ended and self.plan["enough"] in ended["said"]
        scraps = [] if enough else [path.name for path in self.watch.rglob(".*")]
        if ((ended and ended["code"] == 0) or enough) and not differing and not scraps:
            return None
        return f"{status}, {ended}, differing {differing}, scraps {scraps}"


def main(plan: dict[str, Any]) -> dict[str, Any]:
    trial = Trial(plan)
    draws = random.Random(plan["offset"])
    last = min(trial.count, plan["last"] or trial.count)
    moments: list[tuple[int | None, float | None]] = [
        (number, None) for number in range(1 + plan["offset"], last + 1, plan["every"])
    ]
    if plan["clock"]:
        moments = [(None, draws.uniform(0, trial.seconds)) for _ in range(plan["clock"])]
    problems, kills = [], 0
    for moment in moments:
        problem = trial.killed(*moment)
        if problem is None:
            kills += 1
            problem = trial.problem()
        elif plan["clock"]:
            continue  # it was done before its time
        if problem:
            problems.append(f"{moment}: {problem}")
    return {"operations": trial.count, "kills": kills, "problems": problems}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
