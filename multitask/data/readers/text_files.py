"""Read text files as columns by name: CSV, TSV, JSON lines, CoNLL, running text, lines.

Files are UTF-8, with or without a byte order mark. Their lines end with LF, CRLF or CR, and with
nothing else: a form feed, U+0085 and U+2028 are part of a line.
"""

import csv
import json
import random
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from multitask.config import DataConfig
from multitask.data.readers.squad import columns_of_nested, is_nested
from multitask.utils.errors import AS_UTF8, UserError, warn
from multitask.utils.limits import COLUMNS, DATA_BYTES

# columns by name, and the first line of each row; no lines if the rows have none
Read = tuple[dict[str, list], Sequence[int]]

NOT_DECODED = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8, by `surrogateescape`
SEPARATORS = (",", "\t", ";", "|")
UNQUOTE = "where a quote is an ordinary character, set `data.quoting: false`"
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escaped surrogate, alone or one of a pair
DOCUMENT = "-DOCSTART-"  # a line of CoNLL-2003 that is not a word
SEED = 0  # of the pairs of documents; not the run's: all runs see the same pairs


def each_line(file: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file of any size; the last line end starts no new line.

    Raises UserError with the line's number if a line is not UTF-8.
    """
    with file.open(encoding="utf-8-sig", errors="surrogateescape") as opened:
        for number, line in enumerate(opened, 1):  # `open` translates the three line ends
            if not line.isascii() and NOT_DECODED.search(line):
                raise UserError(f"{file}, line {number}: not UTF-8: {AS_UTF8}")
            yield line.removesuffix("\n")


def read_text(file: Path) -> str:
    """Read a UTF-8 file of a table, whose cells may contain carriage returns.

    If a file has no line feeds, carriage returns end its lines and become line feeds. Raises
    UserError if the file is too large or not UTF-8.
    """
    if file.stat().st_size > DATA_BYTES:
        most = f"larger than {DATA_BYTES:,} bytes, the most that is read"
        raise UserError(f"{file}: {most}: split it in files, or save it as Parquet")
    return decoded(file.read_bytes(), str(file))


def decoded(raw: bytes, source: str) -> str:
    """Decode the content of a table as ``read_text``; ``source`` is its name in messages."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{source}, line {line}: not UTF-8: {AS_UTF8}") from error
    return text if "\n" in text else text.replace("\r", "\n")


def lines_of(text: str) -> Iterator[str]:
    """Yield what `split` returns at line feeds, without a list of all lines."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def read_txt(file: Path, data: DataConfig) -> Read:
    """Read one text per line."""
    lines = [(number, line) for number, line in enumerate(each_line(file), 1) if line.strip()]
    return {data.text: [line for _, line in lines]}, [number for number, _ in lines]


# --- CSV and TSV ---


def read_separated(file: Path, data: DataConfig, declared: str) -> Read:
    """Read a table whose first line has the names of the columns; blank lines are skipped.

    The separator is the most frequent one of ``SEPARATORS`` in the first line, ``declared`` if in
    doubt. Raises UserError with file and line if a row has more or fewer cells than the header or
    repeats it, or if a quote does not enclose its cell.
    """
    text = read_text(file)
    separator = _separator(text, declared, data.header)
    rows = _rows(text, file, separator, data.quoting)
    number, header = next(rows, (0, []))
    if not header:
        raise UserError(f"{file}: the file is empty")
    if data.header is not None and data.text not in header:
        rows, header = chain([(number, header)], rows), data.header
    for name in dict.fromkeys(name for name in header if name and header.count(name) > 1):
        warn(f"{file}: several columns have the name {name!r}: the first one is used")
    table: list[list[str]] = [[] for _ in header]
    lines = array("q")
    for line, cells in rows:
        if len(cells) == len(header):
            if cells == header and len(header) > 1:
                raise UserError(f"{file}, line {line}: the header again: delete the line")
            lines.append(line)
            for column, cell in zip(table, cells, strict=True):
                column.append(cell)
        elif len(cells) > 1 or cells[0].strip():
            counts = f"{len(cells)} cells, but the header has {len(header)}"
            advice = "quote a text that holds the separator, write an empty cell for no value"
            if data.quoting and "\n" in "".join(cells):
                advice = UNQUOTE
            raise UserError(f"{file}, line {line}: {counts}: {advice}")
    columns: dict[str, list] = {}
    for name, column in zip(header, table, strict=True):
        columns.setdefault(name, column)
    return columns, lines


def _separator(text: str, declared: str, header: Sequence[str] | None) -> str:
    line = next(filter(str.strip, lines_of(text)), "")
    counts = {separator: line.count(separator) for separator in (declared, *SEPARATORS)}
    if header is not None:  # the line may be a row, whose texts have commas too
        fitting = (separator for separator in counts if counts[separator] == len(header) - 1)
        return next(fitting, declared)
    return max(counts, key=lambda separator: counts[separator])


def _rows(text: str, file: Path, separator: str, quoting: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield each row's first line number and cells. Raises UserError with file and line."""
    if not quoting:  # `csv` would end a row at a carriage return inside a text
        for number, line in enumerate(lines_of(text), 1):
            if line.removesuffix("\r"):
                yield number, line.removesuffix("\r").split(separator)
        return
    csv.field_size_limit(2**31 - 1)  # long documents
    ended = (f"{line}\n" for line in lines_of(text))
    # strict: a quote that does not end its cell would swallow separators, or several rows
    reader = csv.reader(ended, delimiter=separator, strict=True)
    start = 1
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        reason = str(error).partition(" - ")[0]  # the rest is about Python
        advice = f"double the quotes inside a text, and quote a text with a line break; {UNQUOTE}"
        raise UserError(f"{file}, line {start}: not CSV ({reason}): {advice}") from error


# --- JSON ---


def read_json(file: Path, data: DataConfig) -> Read:
    """Read one JSON object per line, one list of objects, or the nested file of SQuAD.

    A number becomes the text in the file: `1` and `1.0` are two texts and two classes, as in CSV.
    `NaN` and `Infinity` without quotes are null. Raises UserError with file and line for anything
    else.
    """
    text, lines = read_text(file), array("q")
    if (nested := _nested(text, file)) is not None:
        return columns_of_nested(nested, str(file)), ()

    def each() -> Iterator[Any]:
        for number, line in enumerate(lines_of(text), 1):  # lines do not end at U+2028
            if line.strip():
                lines.append(number)
                yield _parsed(line, file, number)

    records = _parsed(text, file, 1) if text.lstrip().startswith("[") else [*each()]
    for row, record in enumerate(records):
        if not isinstance(record, dict):
            place = f"line {lines[row]}" if lines else f"row {row + 1}"
            raise UserError(f"{file}, {place}: expected an object a line")
    names = dict.fromkeys(name for record in records for name in record)
    if not names:
        raise UserError(f"{file}: the file is empty")
    if len(names) > COLUMNS:
        raise UserError(f"{file}: {len(names):,} different keys, at most {COLUMNS:,} are read")
    return {name: [record.get(name) for record in records] for name in names}, lines


def _nested(text: str, file: Path) -> Any:
    """Return the object of a nested file, which its keys tell; None for any other text."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = _parsed(text, file, 1)  # of JSON lines only the first one is read
    except UserError:
        if next(filter(str.strip, lines_of(text))).strip() == "{":  # it cannot be JSON lines
            raise
        return None
    return value if is_nested(value) else None


def _parsed(text: str, file: Path, line: int) -> Any:
    """Parse a text that begins in a line of a file."""
    try:
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=lambda _: None)
        if SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"{file}, line {line + error.lineno - 1}"
        raise UserError(f"{place}: not JSON: {error.msg}") from error
    except UnicodeEncodeError as error:
        raise UserError(
            f"{file}, line {line}: half a letter (a lone surrogate): mend it"
        ) from error
    except RecursionError as error:
        raise UserError(f"{file}, line {line}: not JSON: {error}") from error
    return value


# --- words with tags, and running text ---


def read_conll(file: Path, data: DataConfig) -> Read:
    """Read CoNLL columns: one word per line, blank lines between sentences.

    The first column is the words of each sentence (``data.text``), the last its tags
    (``data.label``). Columns in the file are separated by spaces or tabs. A file with one column
    has no tags. Raises UserError with file and line if the number of columns changes.
    """
    sentences: list[list[list[str]]] = [[]]
    lines: list[int] = []  # the first line of each sentence
    width = 0
    for number, line in enumerate(lines_of(read_text(file)), 1):
        cells = re.split(r"[ \t]+", line.strip(" \t\r"))
        if cells[0] in ("", DOCUMENT):
            sentences.append([])
            continue
        if len(cells) != (width or len(cells)):
            message = f"{len(cells)} columns, but {width} in the lines before"
            raise UserError(f"{file}, line {number}: {message}")
        width = len(cells)
        if not sentences[-1]:
            lines.append(number)
        sentences[-1].append(cells)
    filled = [sentence for sentence in sentences if sentence]
    if not filled:
        raise UserError(f"{file}: the file is empty")
    columns = {data.text: [[cells[0] for cells in sentence] for sentence in filled]}
    if width > 1:
        columns[data.label] = [[cells[-1] for cells in sentence] for sentence in filled]
    return columns, lines


def read_documents(file: Path, data: DataConfig) -> Read:
    """Read pairs for next-sentence prediction (Devlin et al. 2019, section 3.1).

    The file has one sentence per line and blank lines between documents. Every sentence except the
    last of a document starts one pair: with the next one (label 1), or with a random one of another
    document (0), with equal probability. Raises UserError if there are fewer than two documents,
    or no document has two sentences.
    """
    if data.text2 is None:
        raise UserError(f"{file}: documents are read as pairs: name the second by `data.text2`")
    documents: list[list[str]] = [[]]
    for line in map(str.strip, lines_of(read_text(file))):
        if line:
            documents[-1].append(line)
        else:
            documents.append([])
    documents = [document for document in documents if document]
    rng = random.Random(SEED)
    pairs = []
    for number, document in enumerate(documents if len(documents) > 1 else ()):
        for sentence, following in pairwise(document):
            if rng.random() < 0.5:
                pairs.append((sentence, following, "1"))
                continue
            other = rng.randrange(len(documents) - 1)
            other += other >= number
            pairs.append((sentence, rng.choice(documents[other]), "0"))
    if not pairs:
        form = "one sentence a line, and a blank line between two or more documents"
        raise UserError(f"{file}: no pairs of sentences: write {form}")
    columns = map(list, zip(*pairs, strict=True))
    return dict(zip((data.text, data.text2, data.label), columns, strict=True)), ()
