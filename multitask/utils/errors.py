"""The one exception that a user's mistake raises: one line that says what, where and what to do."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from functools import cache

# limits of the shell, and what to do
LIMITS = {
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f`)",
}
STANDARD_OUTPUT = "standard output"  # its name in an OSError


class UserError(Exception):
    """Bad input: a config value, a data row, a checkpoint or a device.

    The command line prints it as a single line and exits with 2; from a notebook it is an
    ordinary exception.

    Attributes:
        key: the key of a method's options that the message is about, as far as it is known.
    """

    def __init__(self, message: str, key: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.key = key


class NotFinite(UserError):
    """A loss, gradient or score that is NaN or infinite."""


class PeerLost(UserError):
    """Another process of the same run has ended."""


@contextlib.contextmanager
def reading(source: object) -> Iterator[None]:
    """The one door through which a user's files come in.

    A UserError or an OSError of the block passes. Any other exception, which a library raises for
    input that nobody thought of, becomes a UserError that names ``source``.
    """
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or "no reason given"
        raise UserError(f"{source}: cannot be read: {type(error).__name__}: {reason}") from error


@cache
def warn(line: str) -> None:
    """Print a warning on stderr, each one once."""
    print(f"warning: {line}", file=sys.stderr)


def check_text(text: str, what: str) -> None:
    """Raise UserError for a text of the command line that is empty or was not UTF-8."""
    if not text.strip():
        raise UserError(f"{what} is empty")
    if any("\udc80" <= letter <= "\udcff" for letter in text):
        raise UserError(f"{what} is not UTF-8")


def is_first_process() -> bool:
    """Whether this is rank 0 of the processes that a launcher started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def suggest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """' (did you mean ...?)' for the nearest known word, else the list of known words."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f" (did you mean {near[0]!r}?)"
    return f" (known: {', '.join(known)})" if known else ""
