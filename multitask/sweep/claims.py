"""Claims on a shared directory: of several processes and machines, one at most works on a thing.

A claim on ``seed-1`` is the highest of the files ``seed-1.claim-1``, ``seed-1.claim-2``, ...; it
holds host, process and time, and its holder renews its modification time. To claim is to create
the next number with O_EXCL, which the file system grants to one process only. A stale claim is
taken over in the same way: nobody deletes or renames another's file, so a slow process that acts
on an old look at the directory just finds its number taken. The files are deleted when the work is
done for good; whoever then still gets a claim must look once more whether there is work.
"""

import contextlib
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from multitask.utils.files import write_text

STALE_AFTER = 600.0  # seconds without renewal
RENEW_EVERY = 30.0


@dataclass
class Claim:
    """One held claim; ``lost`` once another process has taken it over."""

    base: Path
    number: int
    lost: bool = field(default=False, init=False)

    @property
    def file(self) -> Path:
        return _file(self.base, self.number)

    def share(self, *pids: int) -> None:
        """The claim now lives as long as any of these processes of this host."""
        write_text(self.file, json.dumps(_owner(*pids)))

    def renew(self) -> None:
        """Say that the holder lives, unless the claim was taken over or deleted."""
        try:
            os.utime(self.file)
        except FileNotFoundError:
            self.lost = True
        if _file(self.base, self.number + 1).exists():
            self.lost = True

    def release(self, *, done: bool) -> None:
        """Free the claim for whoever comes next; ``done`` deletes its files."""
        if self.lost:
            return
        if done:
            for number in range(1, self.number + 1):  # the one that counts goes last
                _file(self.base, number).unlink(missing_ok=True)
            return
        with contextlib.suppress(FileNotFoundError):
            self.share()  # stale on this host, and below on every other
            os.utime(self.file, (0, 0))


def try_claim(base: Path) -> Claim | None:
    """A claim on ``base``, or None while another process holds it."""
    number = highest(base)
    if _holds(base, number):
        return None
    file = _file(base, number + 1)
    try:
        handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return None
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        json.dump(_owner(os.getpid()), opened)
    return Claim(base, number + 1)


def held(base: Path) -> bool:
    """Whether a process holds ``base``."""
    return base.parent.is_dir() and _holds(base, highest(base))


def highest(base: Path) -> int:
    """The number of the newest claim on ``base``; 0 when there is none."""
    start = f"{base.name}.claim-"
    ends = [
        path.name.removeprefix(start)
        for path in base.parent.iterdir()
        if path.name.startswith(start)
    ]
    return max((int(end) for end in ends if end.isdigit()), default=0)


def holder(base: Path) -> str:
    """Who holds ``base``, such as ``host gpu-1, process 4711``, for a message."""
    number = highest(base)
    owner = _read(_file(base, number)) if number else {}
    processes = ", ".join(str(pid) for pid, _ in owner.get("processes", [])) or "?"
    return f"host {owner.get('host', '?')}, process {processes}"


def is_stale(file: Path) -> bool:
    """Whether a claim's holder is gone: a dead process of this host, or ten minutes of silence.

    On this host the process alone decides: a suspended one must not find a second one at work
    when it wakes up. Its start time tells it from a later process of the same number.
    """
    owner = _read(file)
    if owner.get("host") == socket.gethostname():
        return not any(alive(pid) and birth == start_of(pid) for pid, birth in owner["processes"])
    try:
        return _now(file.parent) - file.stat().st_mtime > STALE_AFTER
    except FileNotFoundError:
        return False  # deleted since it was listed: look again


def alive(pid: int) -> bool:
    """Whether a process of this host runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _stat(pid)[:1] not in (["Z"], ["X"])


def start_of(pid: int) -> str | None:
    """The start of a process in clock ticks since boot; None where /proc does not tell."""
    fields = _stat(pid)
    return fields[19] if fields else None  # field 22 of proc(5)


def _stat(pid: int) -> list[str]:
    """``/proc/PID/stat`` from its third field (the state) on; empty outside Linux."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the second field, a name, may hold anything


@contextlib.contextmanager
def renewing(held: Callable[[], list[Claim]]) -> Iterator[None]:
    """Renew the claims of ``held()`` in a thread, however long the block waits for anything."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(RENEW_EVERY):
            for claim in held():
                with contextlib.suppress(OSError):  # a shared directory away for a while
                    claim.renew()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def exclusive(base: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait for the claim on ``base`` and hold it for the block, which other processes repeat.

    ``waiting`` is called once, where there is something to wait for.
    """
    claim = try_claim(base)
    if claim is None:
        waiting()
    while claim is None:
        time.sleep(0.2)
        claim = try_claim(base)
    held = claim
    try:
        with renewing(lambda: [held]):
            yield
    finally:
        held.release(done=True)


def _holds(base: Path, number: int) -> bool:
    """Whether the claim of that number, the highest, is held; 0: there is none."""
    return number > 0 and not is_stale(_file(base, number))


def _file(base: Path, number: int) -> Path:
    return base.with_name(f"{base.name}.claim-{number}")


def _owner(*pids: int) -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "processes": [[pid, start_of(pid)] for pid in pids],
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _read(file: Path) -> dict[str, Any]:
    """A claim's owner; nothing while it is being written, or when its writer died over it."""
    try:
        owner = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _now(directory: Path) -> float:
    """The clock of the file system, which gives files their times: hosts' own clocks may differ."""
    with tempfile.TemporaryFile(dir=directory) as probe:
        return os.fstat(probe.fileno()).st_mtime
