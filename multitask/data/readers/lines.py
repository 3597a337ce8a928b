"""Read text files: UTF-8, in lines that end with LF, CRLF or CR, and with nothing else.

A form feed, U+0085 and U+2028 are part of a line. Every command reads files of texts here.
"""

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from multitask.utils.errors import AS_UTF8, UserError
from multitask.utils.limits import DATA_BYTES

HEAD = 2**16  # bytes at the start of a file that show its encoding
LINE_END = re.compile("\r\n?")
NOT_DECODED = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8, by `surrogateescape`
# UTF-32 before UTF-16, whose byte order mark is the beginning of the other one
MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def each_line(file: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file of any size; the last line end starts no new line.

    Raises UserError with the line's number if a line is not UTF-8.
    """
    with _explained(str(file)):
        with file.open("rb") as head:
            _check_encoding(str(file), head.read(HEAD))
        with file.open(encoding="utf-8-sig", errors="surrogateescape") as opened:
            for number, line in enumerate(opened, 1):  # `open` translates the three line ends
                if not line.isascii() and NOT_DECODED.search(line):
                    raise UserError(f"{file}, line {number}: not UTF-8: {AS_UTF8}")
                yield line.removesuffix("\n")


def read_lines(file: Path) -> list[str]:
    """Return the lines of a file that fits into memory; see ``each_line``."""
    _check_size(file, str(file))
    return list(each_line(file))


def read_text(file: Path, name: str = "") -> str:
    """Read a UTF-8 file without its byte order mark; each line end becomes a line feed.

    ``name`` is the file in error messages; default: its path.
    """
    return LINE_END.sub("\n", read_cells(file, name))


def read_cells(file: Path, name: str = "") -> str:
    """Read a UTF-8 file of a table; carriage returns stay, because a cell may contain them.

    If a file has no line feeds, carriage returns end its lines and become line feeds. ``name`` is
    the file in error messages; default: its path. Raises UserError if the file cannot be read.
    """
    name = name or str(file)
    _check_size(file, name)
    with _explained(name):
        raw = file.read_bytes()
        _check_encoding(name, raw[:HEAD])
        text = raw.decode("utf-8-sig")
    return text if "\n" in text else text.replace("\r", "\n")


def lines_of(text: str) -> Iterator[str]:
    """Yield what `split` returns at line feeds, without a list of all lines."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: not UTF-8 at byte {error.start}: {AS_UTF8}") from error


def _check_size(file: Path, name: str) -> None:
    with _explained(name):
        size = file.stat().st_size
    if size > DATA_BYTES:
        message = f"larger than {DATA_BYTES:,} bytes, the most that is read: split it in files"
        raise UserError(f"{name}: {message}, or save it as Parquet")


def _check_encoding(name: str, head: bytes) -> None:
    """Raise UserError if the first bytes of a file are UTF-16 or UTF-32."""
    if encoding := other_encoding(head):
        advice = f"save it as UTF-8 (`iconv -f {encoding} -t UTF-8`)"
        raise UserError(f"{name}: its encoding is {encoding}, not UTF-8: {advice}")


def other_encoding(head: bytes) -> str:
    """Name the encoding of a file that begins with these bytes, if it is UTF-16 or UTF-32; else "".

    Without a byte order mark, letters of ASCII tell: in UTF-16 a zero byte comes with each.
    """
    for mark, name in MARKS.items():
        if head.startswith(mark):
            return name
    if b"\0" not in head:
        return ""
    names = ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE")
    shares = {name: _ascii_share(head, name) for name in names}
    best = max(shares, key=lambda name: shares[name])
    return best if shares[best] > 0 else ""


def _ascii_share(head: bytes, encoding: str) -> float:
    """Return the share of ASCII in bytes of a text; 0 if they are not text in this encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        text = decoder.decode(head, final=len(head) < HEAD)
    except UnicodeDecodeError:
        return 0.0
    readable = sum(letter.isprintable() or letter.isspace() for letter in text)
    if "\0" in text or readable < 0.95 * len(text):
        return 0.0
    ends, share = len(re.findall("[\r\n]", text)), sum(map(str.isascii, text)) / len(text)
    # in a UTF-8 file with a few zero bytes the line ends would be half a character
    in_lines = ends > 0 and 8 * ends >= len(re.findall(b"[\r\n]", head))
    return share if share > 0.9 or (in_lines and share > 0.05) else 0.0
