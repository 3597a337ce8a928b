"""Print on a terminal, or into a pipe: what its encoding lacks, and what would control it."""

import codecs
import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

ESCAPED = "multitask_escaped"
# control characters but the tab and the end of a line, and those that turn the reading direction
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# how tqdm moves the cursor: to the start of the line, or to a line above and nothing else
BAR = re.compile(r"\r|(?:\x1b\[A)+\Z")


latest = 0.0  # when something was printed last, on the clock time.monotonic


def note(now: float | None = None) -> None:
    """Note that something was printed: now, or then."""
    global latest
    latest = time.monotonic() if now is None else now


class Printed:
    """A text stream that escapes control characters as ``\\u001b``, wherever they come from.

    A JSON reader turns them back into the characters. All else is done by the original stream.

    Attributes:
        stream: the original stream.
        bars: True to pass on the moves of progress bars.
    """

    def __init__(self, stream: Any, *, bars: bool) -> None:
        self.stream = stream
        self.bars = bars

    def write(self, text: str) -> int:
        moves = BAR.match(text) if self.bars else None
        start = moves.end() if moves else 0
        note()
        self.stream.write(text[:start] + CONTROL.sub(_as_json, text[start:]))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def escape_output() -> None:
    """Print control characters, and those that the output's encoding lacks, as ``\\u00e8``.

    A JSON reader turns them back into the characters. Only progress bars move the cursor: they are
    on stderr.
    """
    codecs.register_error(ESCAPED, _escaped)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):  # tests put other objects there
            stream.reconfigure(errors=ESCAPED)
            if not isinstance(stream, Printed):
                setattr(sys, name, Printed(stream, bars=name == "stderr"))


def say(line: str) -> None:
    """Print a line on stdout above the progress bars, at once, also into a pipe or a file."""
    from tqdm import tqdm

    tqdm.write(line)
    sys.stdout.flush()
    note()


def silent(line: str) -> None:
    """Drop a line, in the place of ``say``."""


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Drop what libraries print on stderr without Python, such as the backtrace of a panic."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # stderr is closed
            before = os.dup(2)
            stack.callback(os.close, before)
            stack.callback(os.dup2, before, 2)
            null = os.open(os.devnull, os.O_WRONLY)
            stack.callback(os.close, null)
            os.dup2(null, 2)
        yield


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    raw = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (raw[i : i + 2].hex() for i in range(0, len(raw), 2))
    return "".join(f"\\u{unit}" for unit in units), error.end


def _as_json(sign: re.Match[str]) -> str:
    return f"\\u{ord(sign[0]):04x}"


def without_controls(text: str) -> str:
    """Write control characters as ``\\x1b``: a text from a file must not command the terminal."""
    return CONTROL.sub(lambda sign: _as_json(sign).replace("\\u00", "\\x"), text)
