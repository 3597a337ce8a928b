"""Read CSV, TSV and other separated values; the separator is detected from the header."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

from multitask.config import DataConfig
from multitask.data.readers.places import PlacedColumns
from multitask.utils.errors import UserError, warn

SEPARATORS = (",", "\t", ";", "|")
UNQUOTE = "where a quote is an ordinary character, set `data.quoting: false`"
MIXED = (
    "some lines end with a carriage return (CR) and others with a line feed (LF): save the file "
    "with one kind of line end"
)
# the first line that Excel reads, and some programs write for it, such as `sep=;`
EXCEL = re.compile(r'"?sep=([^\r"])"?\r?', re.IGNORECASE)


def read_separated(text: str, file: str, declared: str, data: DataConfig) -> dict[str, list[str]]:
    """Read the columns of a table by name; detect the separator from the header line.

    Blank lines are skipped. A first line such as ``sep=;`` declares the separator. Raises UserError
    with file and line if a row has more or fewer cells than the header or repeats it, or if a quote
    does not enclose its cell.
    """
    lines = text.split("\n")
    if excel := EXCEL.fullmatch(lines[0]):
        declared, lines[0] = excel[1], ""
    separator = _separator(lines, file, declared, data)
    rows = list(_rows(lines, file, separator, data.quoting))
    if not rows:
        raise UserError(f"{file}: the file is empty")
    if data.header is not None and data.text not in rows[0][1]:
        rows.insert(0, (0, data.header))
    header = rows[0][1]
    if not data.quoting and _ends_mixed(separator.join(header), separator, False):
        raise UserError(f"{file}, line {rows[0][0]}: {MIXED}")
    _check_one_cell(header, file, data)
    for name in sorted(_texts(data) | _others(data)):
        if header.count(name) > 1:
            warn(f"{file}: several columns have the name {name!r}: the first one is used")
    width = len(header)
    rows = [row for row in rows[1:] if width == 1 or len(row[1]) > 1 or row[1][0].strip()]
    for line, cells in rows:
        if len(cells) != width:
            message = f"{len(cells)} cells, but the header has {width}"
            advice = _advice(cells, separator, width, data)
            raise UserError(f"{file}, line {line}: {message}: {advice}")
    _check_repeated(rows, header, file)
    columns: dict[str, list[str]] = {}
    for i, name in enumerate(header):
        columns.setdefault(name, [cells[i] for _, cells in rows])
    return PlacedColumns.of(columns, file, [line for line, _ in rows])


def _check_one_cell(header: list[str], file: str, data: DataConfig) -> None:
    """Raise UserError if a header of one cell holds the names of columns."""
    between = re.search(r"[^\w \-]|(?<=\w) (?=\w)", header[0])
    if len(header) > 1 or between is None or header[0] == data.text:
        return
    names = [name.strip() for name in header[0].split(between[0])]
    if (_texts(data) | {data.label}) & {*names}:
        message = f"the header is one cell `{header[0]}`: is `{between[0]}` the separator?"
        raise UserError(f"{file}: {message} Known: comma, tab, `;`, `|`")


def _check_repeated(rows: list[tuple[int, list[str]]], header: list[str], file: str) -> None:
    """Raise UserError if a row is the header of another file that was appended.

    In a file of one column it may be a text, so there it is a warning.
    """

    def name(cell: str) -> str:
        return cell.strip('\ufeff" ').casefold()

    names = sorted(map(name, header))
    likely = ((line, cells) for line, cells in rows if name(cells[0]) in names)
    for line, cells in likely:
        if sorted(map(name, cells)) == names:
            message = f"{file}, line {line}: the header again, as in files that were joined"
            if len(names) > 1:
                raise UserError(f"{message}: delete the line")
            warn(f"{message}: delete the line if it is no text")
            return


def _advice(cells: Sequence[str], separator: str, width: int, data: DataConfig) -> str:
    if not data.quoting and _ends_mixed(separator.join(cells), separator, False):
        return MIXED
    if data.quoting and "\n" in "".join(cells):
        return UNQUOTE
    if len(cells) > width:
        return "quote a text that holds the separator"
    return "write an empty cell where there is no value, and quote a text that holds a line break"


def _separator(lines: list[str], file: str, declared: str, data: DataConfig) -> str:
    """Return the declared separator, unless only another one gives the config's columns."""
    headers = {
        separator: _first_row(lines, file, separator, data.quoting)
        for separator in dict.fromkeys((declared, *SEPARATORS))
    }
    texts = _texts(data)
    for names in (texts | _others(data), texts):  # a file to predict has no label
        fitting = [separator for separator, header in headers.items() if names <= {*header}]
        if declared in fitting:
            return declared
        if len(fitting) == 1:
            return fitting[0]
    if data.header is not None:  # no header line: compare the number of cells
        fitting = [separator for separator, row in headers.items() if len(row) == len(data.header)]
        return declared if declared in fitting else next(iter(fitting), declared)
    if len(headers[declared]) > 1:
        return declared
    return max(headers, key=lambda separator: len(headers[separator]))


def _texts(data: DataConfig) -> set[str]:
    return {*data.text_columns, *data.choice_columns}


def _others(data: DataConfig) -> set[str]:
    return {data.label, data.id or data.text, *(data.where or ())}


def _first_row(lines: list[str], file: str, separator: str, quoting: bool) -> list[str]:
    """Return the cells of the first row; none if this separator cannot read it."""
    try:
        return next(_rows(lines, file, separator, quoting), (1, []))[1]
    except UserError:
        return []


def _rows(
    lines: list[str], file: str, separator: str, quoting: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row's first line number and cells. Raises UserError with file and line."""
    if not quoting:  # `csv` would end a row at a carriage return inside a text
        for number, line in enumerate(lines, 1):
            if line.removesuffix("\r"):
                yield number, line.removesuffix("\r").split(separator)
        return
    csv.field_size_limit(2**31 - 1)  # long documents
    ended = (f"{line}\n" for line in lines)
    # strict: a quote that does not end its cell would swallow separators, or several rows
    reader = csv.reader(ended, delimiter=separator, strict=True)
    start = 1
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        message = (
            f"a cell goes on after its closing quote: double the quotes inside a text; {UNQUOTE}"
        )
        if "end of data" in str(error):
            message = f"a quote is opened and never closed; {UNQUOTE}"
        if "new-line" in str(error):
            message = "a carriage return is inside a cell: quote the cell"
            message = MIXED if _ends_mixed("\n".join(lines), separator, True) else message
        raise UserError(f"{file}, line {start}: {message}") from error


def _ends_mixed(text: str, separator: str, quoting: bool) -> bool:
    """Return True if a text is rows of one width when carriage returns end rows too."""
    if "\r" not in text:
        return False
    how: Any = csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, quoting=how)
    try:
        return len({len(cells) for cells in rows if cells}) == 1
    except csv.Error:
        return False
