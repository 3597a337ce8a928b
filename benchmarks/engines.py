"""The cost of the engines of `ablate`: seconds until they are ready, and per command.

    python -m benchmarks.engines [--rounds 3] [--commands 20]

Each round starts an engine in a new process. Then `true` runs, once and then many times, one after
another. Engines that are not installed are left out. The first line is a plain ``subprocess``.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from multitask.reporting.table_formats import markdown_table
from multitask.sweep.engines.base import ENGINES, Engine, Job, Settings, load_engine
from multitask.utils.errors import UserError
from multitask.utils.versions import git_revision

LOOK = 0.005  # seconds between two looks at an engine
COMMAND = ("true",)


def one_command(engine: Engine, directory: Path, name: str) -> float:
    """Return the seconds from the submission of a command to the news of its end."""
    began = time.perf_counter()
    engine.submit([Job(name, COMMAND, directory / "log", directory)])
    while not (codes := engine.ended()):
        time.sleep(LOOK)
    if codes != {name: 0}:
        raise SystemExit(f"a command ended with {codes}")
    return time.perf_counter() - began


def measure(name: str, commands: int) -> list[float]:
    """Return the seconds of the start, the first command, a later one (median) and the end."""
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        engine = load_engine(name, Settings(Path(scratch), cpus=1))
        ready = time.perf_counter() - began
        first, *later = [one_command(engine, Path(scratch), str(n)) for n in range(1 + commands)]
        began = time.perf_counter()
        engine.close()
        return [ready, first, median(later), time.perf_counter() - began]


def plain(commands: int) -> float:
    """Return the seconds of the command in a plain process (median)."""
    times = []
    for _ in range(commands):
        began = time.perf_counter()
        subprocess.run(COMMAND, check=True)
        times.append(time.perf_counter() - began)
    return median(times)


def installed(name: str) -> bool:
    """Return True if an engine can be used here."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            load_engine(name, Settings(Path(scratch), cpus=1)).close()
        except UserError:
            return False
    return True


def in_new_process(expression: str) -> str:
    """Return what an expression over this module is, as text."""
    code = f"from benchmarks.engines import *; print({expression})"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--commands", type=int, default=20)
    arguments = made.parse_args()
    names = [name for name in ENGINES if in_new_process(f"installed({name!r})") == "True"]
    rounds: dict[str, list[list[float]]] = {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name, of_name in rounds.items():
            said = in_new_process(f"*measure({name!r}, {arguments.commands})")
            of_name.append([float(word) for word in said.split()])
    lines = [["a plain process", "", "", f"{plain(arguments.commands):.3f}", ""]]
    for name, of_name in rounds.items():
        lines.append(
            [f"`{name}`", *(f"{median(column):.3f}" for column in zip(*of_name, strict=True))]
        )
    count = f"{arguments.rounds} rounds of {arguments.commands} commands"
    print(f"{count}, commit {git_revision()}\n")
    titles = ("seconds", "start", "first command", "per command", "end")
    print(markdown_table(titles, lines))


if __name__ == "__main__":
    main()
