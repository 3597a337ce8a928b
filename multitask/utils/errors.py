"""UserError, the exception for a user's mistake: one line says what, where and what to do."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from functools import cache

from multitask.utils.terminal import without_controls

# limits of the shell, and what to do when they are reached
LIMITS = {
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f`)",
    errno.ENOMEM: "free memory, or raise its limit (`ulimit -v`)",
}
# what libraries say, in many kinds of exceptions, when they get no memory
NO_MEMORY = ("allocate memory", "failed to map segment", "could not create a primitive")
SHOWN = 50  # known words that a message lists
LONGEST = 2_000  # characters of a message
AS_UTF8 = (  # how to save a file of another encoding
    "save it as UTF-8 (Excel: `CSV UTF-8`; an editor: its encoding in `Save as`; or "
    "`iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW`)"
)
STANDARD_OUTPUT = "standard output"  # the file name in an OSError about it


class UserError(Exception):
    """Bad input: a config value, a data row, a checkpoint or a device.

    The command line prints it as one line and exits with ``exit_code``. In a notebook it is an
    ordinary exception.

    Attributes:
        key: the option of a method that the message is about; empty if unknown.
        place: the place in a config with which the message begins; empty if there is none.
        exit_code: the exit code of the command line.
    """

    exit_code = 2

    def __init__(self, message: str, key: tuple[str, ...] = (), place: str = "") -> None:
        super().__init__(message)
        self.key, self.place = key, place


class NotFinite(UserError):
    """A loss, gradient or score is NaN or infinite."""


class TryAgain(UserError):
    """Nothing is wrong, but the work is not done: the same command does it later."""

    exit_code = os.EX_TEMPFAIL  # 75


class PeerLost(UserError):
    """Another process of the same run has ended."""


def reason_of(error: BaseException, most: int | None = None) -> str:
    """Return an exception's message in one line, at most so many characters of it."""
    return " ".join(str(error).split())[:most]


def is_out_of_memory(error: BaseException) -> bool:
    """Return True for an exception because of too little memory."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY)


def is_panic(error: BaseException) -> bool:
    """Return True for a panic of a Rust library: pyo3 raises it, and it is not an ``Exception``."""
    return type(error).__module__ == "pyo3_runtime"


@contextlib.contextmanager
def without_panic() -> Iterator[None]:
    """Turn a panic of a Rust library into a RuntimeError, which handlers of libraries catch."""
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise RuntimeError(f"a library cannot use it ({reason_of(error, 200)})") from error


@contextlib.contextmanager
def reading(source: object) -> Iterator[None]:
    """Turn any exception of the block into a UserError that names ``source``.

    Use it where a user's files are read: libraries raise many kinds of exceptions for unexpected
    input. A UserError or an OSError passes unchanged.
    """
    try:
        with without_panic():
            yield
    except (UserError, OSError):
        raise
    except Exception as error:
        reason = reason_of(error, 300) or "no reason given"
        raise UserError(f"{source}: cannot be read: {type(error).__name__}: {reason}") from error


@cache
def warn(line: str) -> None:
    """Print a warning on stderr; the same line is printed once."""
    print(f"warning: {one_line(line)}", file=sys.stderr)


def check_text(text: str, what: str) -> None:
    """Raise UserError if a text from the command line is empty or not UTF-8."""
    if not text.strip():
        raise UserError(f"{what} is empty")
    if any("\udc80" <= letter <= "\udcff" for letter in text):
        raise UserError(f"{what} is not UTF-8")


def is_first_process() -> bool:
    """Return True for rank 0 of the processes of a launcher, or for the only process."""
    return os.environ.get("RANK", "0") == "0"


def suggest(word: str, names: list[str] | tuple[str, ...]) -> str:
    """Return ' (did you mean ...?)' with the nearest of ``names``, else the list of them."""
    import difflib

    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f" (did you mean {near[0]!r}?)"
    more = ", ..." if len(names) > SHOWN else ""
    return f" (known: {', '.join(names[:SHOWN])}{more})" if names else ""


def no_file(file: os.PathLike[str]) -> str:
    """Say that a path is no file: it does not exist, or is a directory, a pipe or a device."""
    return f"{'not a file' if os.path.exists(file) else 'no such file'}: {file}"  # noqa: PTH110


def check_regular(file: os.PathLike[str]) -> None:
    """Raise UserError for a directory, a pipe or a device, which would be read without an end."""
    if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113
        raise UserError(f"{file}: neither a file nor a link to one: remove it")


def one_line(message: str) -> str:
    """Return a message in one line that any terminal can show.

    The middle of a long text from the user, such as a path, is left out.
    """
    line = without_controls(" ".join(message.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 500]} ... {line[-500:]}"
