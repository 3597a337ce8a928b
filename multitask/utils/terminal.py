"""Print on a terminal, or into a pipe: what its encoding lacks, and what would control it."""

import codecs
import re
import sys

ESCAPED = "multitask_escaped"
# all control characters but the tab and the end of a line
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def escape_output() -> None:
    """Print characters that the encoding of the output lacks as ``\\u00e8``.

    A JSON reader turns them back into the characters.
    """
    codecs.register_error(ESCAPED, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # tests put other objects there
            stream.reconfigure(errors=ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    raw = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (raw[i : i + 2].hex() for i in range(0, len(raw), 2))
    return "".join(f"\\u{unit}" for unit in units), error.end


def without_controls(text: str) -> str:
    """Write control characters as ``\\x1b``: a text from a file must not command the terminal."""
    return CONTROL.sub(lambda sign: f"\\x{ord(sign[0]):02x}", text)
