"""SIGKILL for a sweep, a run or a worker of Ray; SLURM queues runs again or preempts them."""

import os
import stat
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def words(process: int) -> list[str]:
    return Path(f"/proc/{process}/cmdline").read_text().split("\0")


def writers(output: Path) -> dict[str, list[int]]:
    """The processes that write to the log of a run, by the path of the log.

    A process between its fork and its exec, which still has the files of its parent, is left out.
    """
    found: dict[str, dict[int, int]] = {}
    for handle in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = str(handle.readlink())
            writes = handle.lstat().st_mode & stat.S_IWUSR  # the table's process only reads
            process, of = int(handle.parts[2]), parent(int(handle.parts[2]))
        except OSError:  # it has just ended
            continue
        if writes and target.startswith(f"{output}/") and target.endswith("/metrics.jsonl"):
            found.setdefault(target, {})[process] = of
    return {log: [p for p, of in had.items() if of not in had] for log, had in found.items()}


@contextmanager
def watched(output: Path) -> Iterator[Counter[str]]:
    """Count how many processes write to the log of a run at most, while the block runs."""
    most: Counter[str] = Counter()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            for log, processes in writers(output).items():
                most[log] = max(most[log], len(processes))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def queued() -> list[str]:
    """The ids of SLURM's tasks that run or wait."""
    asked = ["squeue", "--noheader", "--array", "--format=%i"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


def requeue() -> None:
    for task in queued():
        subprocess.run(["scontrol", "requeue", task], capture_output=True)


def preempt() -> None:
    """Submit a short job that needs both nodes, in the partition that comes first."""
    job = ["--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 3"]
    subprocess.run(["sbatch", *job], capture_output=True, check=True)


def hurry() -> None:
    """Let SLURM start waiting tasks now, not two minutes after they were queued again."""
    for task in queued():
        update = ["scontrol", "update", f"JobId={task}", "StartTime=now"]
        subprocess.run(update, capture_output=True)


def strike(kind: str, sweep: subprocess.Popen[str], output: Path) -> bool:
    """Kill one process of a kind; return False if there is none now."""
    if kind in ("requeue", "preempt"):
        requeue() if kind == "requeue" else preempt()
        return True
    if kind == "sweep":
        sweep.kill()
        return True
    runs = [process for found in writers(output).values() for process in found]
    try:
        victims = runs if kind == "run" else [parent(process) for process in runs]
        victims = [p for p in victims if kind == "run" or words(p)[0].startswith("ray::")]
        for process in victims[:1]:
            os.kill(process, 9)
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return False
    return bool(victims)
