"""Kill a command at each of its file operations, repeat it, and say where the outcome differs.

    python -m tests.support.kill_everywhere PLAN.json

The plan has ``first``, the command that is killed, ``again``, the one that goes on, ``watch``, the
directory whose file operations count, ``before``, a directory that is there before the first
command (or null), ``keep``, the files below the directory that must be the same as after a
run that nobody killed, ``always``, a file that must be there after every kill (or absent), and
``every``, ``offset``: which operations are tried. ``enough`` is what the second command may say
where the first was killed when all was done (or absent). Prints a JSON object: ``operations``,
``kills`` and ``problems``.

The libraries are loaded once: each command runs in a fork of this process.
"""

import hashlib
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import run_multitask
from multitask.reporting.figures import style
from multitask.training import train_run  # noqa: F401  (loaded before the forks)
from multitask.utils import files

# audit events of what changes files; "open" counts where it writes
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "open"}
WRITES = os.O_WRONLY | os.O_RDWR


class Operations:
    """Counts this process's file operations below a directory and kills it at one of them."""

    def __init__(self, watch: Path, kill_at: int | None) -> None:
        self.watch, self.kill_at, self.count = str(watch), kill_at, 0

    def listen(self) -> None:
        sys.addaudithook(self.heard)
        exchange = files._exchange

        def exchanged(made: Path, target: Path) -> bool:
            self.one()
            swapped = exchange(made, target)
            self.one()
            return swapped

        files._exchange = exchanged

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CHANGES or not str(arguments[0]).startswith(self.watch):
            return
        if event != "open" or arguments[2] & WRITES:
            self.one()

    def one(self) -> None:
        self.count += 1
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def fork(work: Callable[[], Any]) -> tuple[int, Any]:
    """Call a function in a fork; return the exit status and the function's JSON value."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w") as opened:
                json.dump(work(), opened)
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(70)
    os.close(writer)
    with os.fdopen(reader) as opened:
        text = opened.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(text) if text else None


def run(command: list[str], operations: Operations | None = None) -> list[Any]:
    """Run a command; return its exit code, what it said at last, and its file operations."""
    said = io.StringIO()
    if operations:
        operations.listen()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        code = run_multitask.main(command)
    lines = said.getvalue().splitlines()
    return [code, lines[-1] if lines else "", operations.count if operations else 0]


def digests(directory: Path, keep: list[str]) -> dict[str, str]:
    """The SHA-256 of the files that must be the same."""
    found = {}
    for pattern in keep:
        for file in sorted(directory.glob(pattern)):
            if file.is_file():
                name = file.relative_to(directory).as_posix()
                found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def main(plan: dict[str, Any]) -> dict[str, Any]:
    watch, keep = Path(plan["watch"]), plan["keep"]
    draw = style.save_figure  # drawing takes long
    style.save_figure = lambda figure, file: draw(style.new_figure(0.1, 0.1), file)

    def begin() -> None:
        shutil.rmtree(watch, ignore_errors=True)
        watch.mkdir(parents=True)
        if plan["before"]:
            shutil.copytree(plan["before"], watch, dirs_exist_ok=True)

    begin()
    code, (exit_code, said, operations) = fork(lambda: run(plan["first"], Operations(watch, None)))
    assert code == exit_code == 0, said
    expected = digests(watch, keep)
    assert expected, "no file is compared"
    problems, kills = [], 0
    for number in range(1 + plan["offset"], operations + 1, plan["every"]):
        begin()
        at = number
        code, _ = fork(lambda: run(plan["first"], Operations(watch, at)))  # noqa: B023
        if code != -signal.SIGKILL:
            problems.append(f"{number}: not killed: {code}")
            continue
        kills += 1
        if not (watch / plan.get("always", ".")).exists():
            problems.append(f"{number}: {plan['always']} is gone")
        for attempt in plan["again"]:
            code, found = fork(lambda: run(attempt))  # noqa: B023
            if code == 0 and found[0] == 0:
                break
        after = digests(watch, keep)
        differing = [name for name in expected if after.get(name) != expected[name]]
        if found and not differing and plan.get("enough", "\n") in found[1]:
            continue  # killed when all was done
        scraps = [path.name for path in watch.rglob(".*")]
        if code or not found or found[0] or differing or scraps:
            problems.append(f"{number}: {code}, {found}, differing {differing}, scraps {scraps}")
    return {"operations": operations, "kills": kills, "problems": problems}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
