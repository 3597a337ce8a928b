"""Let Ctrl-C and SIGTERM ask a loop to stop, instead of interrupting it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def on_signal(ask: Callable[[], None]) -> Iterator[None]:
    """Call ``ask`` for Ctrl-C and SIGTERM inside the ``with`` block."""
    before: dict[int, Any] = {}
    with suppress(ValueError):  # not the main thread (a notebook's worker): no handlers
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda *_: ask())
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
