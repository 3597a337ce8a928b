"""`ablate` with a stand-in for training: its grid, its processes, what they leave behind."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import run_multitask
from tests.conftest import ROOT

FAKE = ROOT / "tests" / "support" / "fake_trainer.py"


GRID = f"""
base: {ROOT / "configs" / "cs224n_minilm.yaml"}
seeds: [1, 2]
cells: {{a: {{}}, b: {{training.epochs: 3}}}}
"""


DRIVER = """
import sys
from pathlib import Path
from multitask.sweep import pool
from multitask.sweep.engines import slurm
from tests.support import comparison_stand_in
pool.PROGRAM, pool.TICK, pool.PAUSE, slurm.POLL = Path(sys.argv[1]), 0.02, 0.1, 0.2
for name in ("compare", "sheet_tables", "write_sheet"):
    sys.modules[f"multitask.reporting.{name}"] = comparison_stand_in
import run_multitask
sys.exit(run_multitask.main(sys.argv[2:]))
"""


ALL = [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def ablate(*arguments: object) -> int:
    return run_multitask.main(["ablate", *map(str, arguments)])


def starts(cell: str, seed: int, output: Path = Path("runs/g")) -> list[str]:
    """The commands with which a run was started, from its log."""
    log = output / "cells" / cell / "logs" / f"seed-{seed}.log"
    if not log.exists():
        return []
    return [line for line in log.read_text().splitlines() if line.startswith("# start ")]


def log_of(cell: str, seed: int) -> str:
    return Path(f"runs/g/cells/{cell}/logs/seed-{seed}.log").read_text()


def processes_of(cell: str, seed: int) -> list[int]:
    """The processes of a run, over all its starts."""
    return [int(number) for number in re.findall(r"^process (\d+)", log_of(cell, seed), re.M)]


def background(
    *arguments: object, prefix: Sequence[str] = (), command: str = "ablate"
) -> subprocess.Popen[str]:
    """A sweep in a separate process, with the stand-in for training."""
    words = [command, *map(str, arguments)]
    program = [*prefix, sys.executable, "-c", DRIVER, str(FAKE), *words]
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait until a sweep ends with this code; return what it said."""
    said, _ = process.communicate(timeout=300)
    assert process.returncode == code, said
    return said


def swept(*arguments: object, code: int = 0, command: str = "ablate") -> str:
    """Run a sweep in a separate process to its end with this code; return what it said."""
    return ended(background(*arguments, command=command), code)


def until(condition: Callable[[], object]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never came to that")


def alive(process: int) -> bool:
    """Return True if a process of this host runs and is not a zombie (Linux)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def finish(run: Path) -> None:
    """Write what a run has written when it is finished."""
    run.mkdir(parents=True, exist_ok=True)
    report = {"overall": {"mean": 0.5}, "seed": 1, "selection_split": "dev", "tasks": {}}
    (run / "report.json").write_text(json.dumps(report))
