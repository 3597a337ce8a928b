"""Print a line every 30 seconds of silence, whatever the program is doing.

Long work says what it is by ``working`` or ``tracked``. A thread says it, with how much is done,
when nothing else was printed for a while: also while a library loads a file or cuts texts.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from multitask.utils import terminal
from multitask.utils.errors import is_first_process

EVERY = 30  # seconds without a line

T = TypeVar("T")


@dataclass(eq=False)
class Work:
    """What the program is doing.

    Attributes:
        title: the work in words; "" for waiting, which needs no line.
        total: the number of its parts; 0 if unknown.
        began: when it began, on the clock ``time.monotonic``.
        done: the number of finished parts.
    """

    title: str
    total: int
    began: float
    done: int = 0


_works: list[Work] = []  # the innermost last
_says: list[Callable[[str], None]] = []  # the innermost last


@contextlib.contextmanager
def working(title: str, total: int = 0) -> Iterator[Work]:
    """Say during the block what is done; the block counts ``done`` up to ``total``."""
    work = Work(title, total, time.monotonic())
    _works.append(work)
    try:
        yield work
    finally:
        _works.remove(work)  # another thread may have begun another one since


def tracked(parts: Sequence[T], title: str) -> Iterator[T]:
    """Yield the parts, and count them as work; a terminal shows a bar. No title: only yield."""
    if not title or not is_first_process():
        yield from parts
        return
    from tqdm import tqdm

    with working(title, len(parts)) as work:
        for work.done, part in enumerate(tqdm(parts, desc=title, leave=False, disable=None)):
            yield part


@contextlib.contextmanager
def talking(say: Callable[[str], None]) -> Iterator[None]:
    """Let ``say`` print a line after each 30 seconds of silence in the block.

    Of the processes of a launcher only the first one does.
    """
    stop = threading.Event()

    def talk() -> None:
        while not stop.wait(1):
            with contextlib.suppress(OSError, ValueError):  # the output was closed
                speak(time.monotonic())

    terminal.note()
    _says.append(say)
    thread = threading.Thread(target=talk, daemon=True)
    try:
        if len(_says) == 1 and is_first_process():
            with contextlib.suppress(RuntimeError):  # the limit of threads is reached
                thread.start()
        yield
    finally:
        _says.pop()
        stop.set()
        if thread.ident is not None:
            thread.join()  # a thread that prints while Python ends could abort it


def speak(now: float) -> None:
    """Print what is done if nothing was printed for 30 seconds; ``now`` is the clock's time."""
    works, says = _works[-1:], _says[-1:]  # the other thread may end them meanwhile
    if not works or not says or not works[0].title or now - terminal.latest < EVERY:
        return
    (work,), (say,) = works, says
    parts = f", {work.done} of {work.total}" if work.total else ""
    say(f"{work.title}{parts}, for {now - work.began:.0f} s")
    terminal.note(now)
