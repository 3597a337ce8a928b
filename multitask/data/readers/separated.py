"""Read CSV, TSV and other separated values; the separator is detected from the header."""

import csv
import io
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from multitask.config import DataConfig
from multitask.data.readers.lines import lines_of
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
    if excel := EXCEL.fullmatch(next(lines_of(text))):
        declared, text = excel[1], text[excel.end() :]
    separator = _separator(text, file, declared, data)
    rows = _rows(text, file, separator, data.quoting)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{file}: the file is empty")
    if data.header is not None and data.text not in first[1]:
        rows, first = chain([first], rows), (0, data.header)
    number, header = first
    width, wrong = len(header), None
    table: list[list[str]] = [[] for _ in header]
    lines = array("q")
    for line, cells in rows:
        if len(cells) == width:
            lines.append(line)
            for column, cell in zip(table, cells, strict=True):
                column.append(cell)
        elif wrong is None and (len(cells) > 1 or cells[0].strip()):
            wrong = line, cells
    if not data.quoting and _ends_mixed(separator.join(header), separator, False):
        raise UserError(f"{file}, line {number}: {MIXED}")
    _check_one_cell(header, file, data)
    for name in sorted(_texts(data) | _others(data)):
        if header.count(name) > 1:
            warn(f"{file}: several columns have the name {name!r}: the first one is used")
    if wrong is not None:
        line, cells = wrong
        message = f"{len(cells)} cells, but the header has {width}"
        advice = _advice(cells, separator, width, data)
        raise UserError(f"{file}, line {line}: {message}: {advice}")
    _check_repeated(table, lines, header, file)
    columns: dict[str, list[str]] = {}
    for name, column in zip(header, table, strict=True):
        columns.setdefault(name, column)
    return PlacedColumns.of(columns, file, lines)


def _check_one_cell(header: list[str], file: str, data: DataConfig) -> None:
    """Raise UserError if a header of one cell holds the names of columns."""
    between = re.search(r"[^\w \-]|(?<=\w) (?=\w)", header[0])
    if len(header) > 1 or between is None or header[0] == data.text:
        return
    names = [name.strip() for name in header[0].split(between[0])]
    if (_texts(data) | {data.label}) & {*names}:
        message = f"the header is one cell `{header[0]}`: is `{between[0]}` the separator?"
        raise UserError(f"{file}: {message} Known: comma, tab, `;`, `|`")


def _check_repeated(
    table: list[list[str]], lines: Sequence[int], header: list[str], file: str
) -> None:
    """Raise UserError if a row is the header of another file that was appended.

    In a file of one column it may be a text, so there it is a warning.
    """

    def name(cell: str) -> str:
        return cell.strip('\ufeff" ').casefold()

    names = sorted(map(name, header))
    for row, cell in enumerate(table[0]):
        if name(cell) in names and sorted(name(column[row]) for column in table) == names:
            message = f"{file}, line {lines[row]}: the header again, as in files that were joined"
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


def _separator(text: str, file: str, declared: str, data: DataConfig) -> str:
    """Return the declared separator, unless only another one gives the config's columns."""
    headers = {
        separator: _first_row(text, file, separator, data.quoting)
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


def _first_row(text: str, file: str, separator: str, quoting: bool) -> list[str]:
    """Return the cells of the first row; none if this separator cannot read it."""
    try:
        return next(_rows(text, file, separator, quoting), (1, []))[1]
    except UserError:
        return []


def _rows(text: str, file: str, separator: str, quoting: bool) -> Iterator[tuple[int, list[str]]]:
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
        message = (
            f"a cell goes on after its closing quote: double the quotes inside a text; {UNQUOTE}"
        )
        if "end of data" in str(error):
            message = f"a quote is opened and never closed; {UNQUOTE}"
        if "new-line" in str(error):
            message = "a carriage return is inside a cell: quote the cell"
            message = MIXED if _ends_mixed(text, separator, True) else message
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
