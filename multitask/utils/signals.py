"""Let Ctrl-C and SIGTERM ask a loop to stop, instead of interrupting it."""

import signal
from collections.abc import Callable
from typing import Any


class Signals:
    """Call ``ask`` for Ctrl-C and SIGTERM inside the ``with`` block."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self.ask = ask
        self.before: dict[int, Any] = {}

    def __enter__(self) -> None:
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, lambda *_: self.ask())
        except ValueError:
            pass  # not the main thread (a notebook's worker): no handlers

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
