"""Let Ctrl-C and SIGTERM ask a loop to stop, or end the work in order."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM stopped the work; like KeyboardInterrupt, no handler of errors takes it.

    Attributes:
        begun: True if a run directory has what a resume goes on from.
    """

    def __init__(self, begun: bool = True) -> None:
        super().__init__()
        self.begun = begun


def interrupt(begun: bool) -> None:
    """Raise Interrupted, for ``on_signal``."""
    raise Interrupted(begun)


@contextmanager
def on_signal(ask: Callable[[], None]) -> Iterator[None]:
    """Call ``ask`` at the first Ctrl-C or SIGTERM inside the ``with`` block.

    A second Ctrl-C raises KeyboardInterrupt. Later SIGTERMs do nothing: the system and a cluster
    scheduler may each send several.
    """
    received: list[int] = []

    def handle(number: int, _: object) -> None:
        received.append(number)
        if received.count(signal.SIGINT) > 1:
            raise KeyboardInterrupt
        if len(received) == 1:
            ask()

    before: dict[int, Any] = {}
    with suppress(ValueError):  # not the main thread (a notebook's worker): no handlers
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
