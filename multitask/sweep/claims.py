"""Claims on a shared directory, so that at most one process of all machines works on a run.

- A claim on ``seed-1`` is the file ``seed-1.claim-N`` with the highest N. It contains host, process
  and time; its holder renews its modification time.
- The number of a process counts in its PID namespace only: two containers may have the same host
  name, and each has a process 1.
- To claim, a process creates the next number with O_EXCL, which the file system grants only once.
- A stale claim is taken over in the same way. Nobody deletes or renames another process's file, so
  a slow process that acts on an old listing finds its number taken.
- The files are deleted when the work is finished. A process that gets a claim after that must check
  again if there is work.
"""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from multitask.utils.errors import UserError
from multitask.utils.file_system import time_of as _now
from multitask.utils.files import read_bounded, write_text
from multitask.utils.limits import JSON_BYTES

STALE_AFTER = 600.0  # seconds without renewal
RENEW_EVERY = 30.0


@dataclass
class Claim:
    """A claim of this process.

    Attributes:
        base: the path that is claimed.
        number: the number of the claim's file.
        lost: True after another process has taken the claim over.
    """

    base: Path
    number: int
    lost: bool = field(default=False, init=False)

    @property
    def file(self) -> Path:
        return _file(self.base, self.number)

    def share(self, *pids: int) -> None:
        """Keep the claim alive as long as any of these processes of this host."""
        write_text(self.file, json.dumps(_owner(*pids)))

    def renew(self) -> None:
        """Renew the modification time, or note that the claim was taken over or deleted."""
        try:
            os.utime(self.file)
        except FileNotFoundError:
            self.lost = True
        if _file(self.base, self.number + 1).exists():
            self.lost = True

    def release(self, *, done: bool) -> None:
        """Free the claim for other processes; ``done`` deletes its files."""
        if self.lost:
            return
        if done:
            for number in range(1, self.number + 1):  # the highest last
                _file(self.base, number).unlink(missing_ok=True)
            return
        with contextlib.suppress(FileNotFoundError):
            self.share()  # makes it stale on this host; the next line on other hosts
            os.utime(self.file, (0, 0))


def try_claim(base: Path) -> Claim | None:
    """Claim ``base``; return None if another process holds it."""
    number = highest(base)
    if _holds(base, number):
        return None
    file = _file(base, number + 1)
    try:
        handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError:
        return None
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        json.dump(_owner(os.getpid()), opened)
    return Claim(base, number + 1)


def held(base: Path) -> bool:
    """Return True if a process holds ``base``."""
    return _holds(base, highest(base))


def is_claim(path: Path, base: Path) -> bool:
    """Return True for the path of a claim on ``base``."""
    return path.name.startswith(f"{base.name}.claim-")


def highest(base: Path) -> int:
    """Return the number of the newest claim on ``base``; 0 if there is none."""
    start = f"{base.name}.claim-"
    ends = [path.name.removeprefix(start) for path in base.parent.glob(f"{start}*")]
    return max((int(end) for end in ends if end.isdigit()), default=0)


def holder(base: Path) -> str:
    """Name the holder of ``base`` for a message, such as ``host gpu-1, process 4711``."""
    number = highest(base)
    owner = _read(_file(base, number)) if number else {}
    processes = ", ".join(str(pid) for pid, _ in owner.get("processes", [])) or "?"
    return f"host {owner.get('host', '?')}, process {processes}"


def is_stale(file: Path) -> bool:
    """Return True if a claim's holder is gone: its process is dead, or it stopped renewing.

    In this PID namespace only the process counts: a suspended process must not find another one at
    work when it continues. Its start time distinguishes it from a later process with the same
    number.
    """
    owner = _read(file)
    here = owner.get("namespace", namespace()) == namespace()  # older claims do not name it
    if here and owner.get("host") == socket.gethostname():
        return not any(alive(pid) and birth == start_of(pid) for pid, birth in owner["processes"])
    try:
        return _now(file.parent) - file.stat().st_mtime > STALE_AFTER
    except FileNotFoundError:
        return False  # deleted since it was listed: the caller looks again


def alive(pid: int) -> bool:
    """Return True if a process of this host runs and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _stat(pid)[:1] not in (["Z"], ["X"])


def namespace() -> str:
    """Name the PID namespace of this process, such as ``pid:[4026531836] of boot 3c0f...``.

    Empty without /proc.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{Path('/proc/self/ns/pid').readlink()} of boot {boot}"
    except OSError:
        return ""


def start_of(pid: int) -> str | None:
    """Return the start of a process in clock ticks since boot; None without /proc."""
    fields = _stat(pid)
    return fields[19] if fields else None  # field 22 of proc(5)


def _stat(pid: int) -> list[str]:
    """Return ``/proc/PID/stat`` from its third field (the state) on; empty without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the second field, a name, may have any characters


@contextlib.contextmanager
def renewing(held: Callable[[], list[Claim]]) -> Iterator[None]:
    """Renew the claims of ``held()`` in a thread while the block runs."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(RENEW_EVERY):
            for claim in held():
                with contextlib.suppress(OSError):  # the shared directory may be away for a while
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
    """Wait for the claim on ``base`` and hold it during the block.

    ``waiting`` is called once if another process holds the claim.
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
    """Return True if the claim with the highest ``number`` is held; 0 means no claim."""
    return number > 0 and not is_stale(_file(base, number))


def _file(base: Path, number: int) -> Path:
    return base.with_name(f"{base.name}.claim-{number}")


def _owner(*pids: int) -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "namespace": namespace(),
        "processes": [[pid, start_of(pid)] for pid in pids],
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _read(file: Path) -> dict[str, Any]:
    """Read a claim's owner; empty while it is being written, or if its writer was killed."""
    try:
        owner = json.loads(read_bounded(file, JSON_BYTES))
    except (OSError, ValueError, RecursionError, UserError):
        return {}
    return owner if isinstance(owner, dict) else {}
