"""Files as columns by name: CSV, TSV, JSON lines, Parquet, CoNLL columns, one text a line."""

import csv
import io
import json
import re
from pathlib import Path

from multitask.config import DataConfig
from multitask.data.readers.conll import read_conll
from multitask.data.readers.documents import read_documents
from multitask.utils.errors import UserError

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # escaped, one of a pair or alone
FORMATS = {
    ".txt": "txt",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".conll": "conll",
}


def table_of(data: DataConfig, file: Path) -> dict[str, list]:
    """The columns of a file of one's own, by its ending. Raises UserError for an unknown one."""
    form = FORMATS.get(file.suffix.lower())
    if form is None:
        known = ", ".join(FORMATS)
        raise UserError(f"{file}: cannot tell the format: give it one of the endings {known}")
    if form in ("csv", "tsv"):  # the task's own files may be tab-separated and called .csv
        form = "tsv" if "\t" in read_text(file).partition("\n")[0] else "csv"
    return read_table(file, form, data)


def read_text(file: Path) -> str:
    """A UTF-8 file's text, without a byte order mark. Raises UserError where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 at byte {error.start}: save it as UTF-8") from error


def read_table(file: Path, form: str, data: DataConfig) -> dict[str, list]:
    """A file's columns by name, read as ``data`` says. Raises UserError with file and line."""
    if form == "txt":
        lines = [line for line in read_text(file).split("\n") if line.strip()]
        return {data.text: lines}
    if form in ("csv", "tsv"):
        return _read_csv(file, "," if form == "csv" else "\t", data)
    if form == "jsonl":
        return _read_jsonl(file)
    if form == "documents":
        if data.text2 is None:
            raise UserError(
                f"{file}: documents are read as pairs: name the second one by `data.text2`"
            )
        names = {"first": data.text, "second": data.text2, "label": data.label}
        return read_documents(read_text(file), file, **names)
    if form == "conll":
        return read_conll(read_text(file), file, data.text, data.label)
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_table(file).to_pydict()
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file}: not a readable Parquet file: {reason}") from error


def _read_csv(file: Path, separator: str, data: DataConfig) -> dict[str, list]:
    """Columns by name; blank lines are skipped, cells missing at a row's end are empty."""
    unquote = "where a quote is an ordinary character, set `data.quoting: false`"
    reader = csv.reader(
        io.StringIO(read_text(file)),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if data.quoting else csv.QUOTE_NONE,
        strict=True,  # a quote that does not end its cell would swallow separators, or whole rows
    )
    csv.field_size_limit(2**31 - 1)  # long documents
    rows = []  # (line, cells)
    start = 1
    try:
        for cells in reader:
            rows.append((start, cells))
            start = reader.line_num + 1
    except csv.Error as error:
        message = "a cell goes on after its closing quote: double the quotes inside a text"
        if "end of data" in str(error):
            message = "a quote is opened and never closed"
        raise UserError(f"{file}, line {start}: {message}; {unquote}") from error
    rows = [(line, cells) for line, cells in rows if cells]
    if not rows:
        raise UserError(f"{file}: the file is empty")
    if data.header is not None and data.text not in rows[0][1]:
        rows.insert(0, (0, data.header))
    header = rows[0][1]
    if separator == "," and "\t" in "".join(header):
        raise UserError(f"{file}: the header is separated by tabs: set `data.format: tsv`")
    if separator == "\t" and len(header) == 1 and "," in header[0]:
        raise UserError(f"{file}: the header is separated by commas: set `data.format: csv`")
    width = len(header)
    for line, cells in rows:
        if len(cells) > width:
            message = f"{len(cells)} cells, but the header has {width}"
            fix = unquote if "\n" in "".join(cells) else "quote a text that holds the separator"
            raise UserError(f"{file}, line {line}: {message}: {fix}")
    columns: dict[str, list] = {}
    for i, name in enumerate(header):  # of two columns with one name the first counts
        columns.setdefault(name, [cells[i] if i < len(cells) else "" for _, cells in rows[1:]])
    return columns


def _read_jsonl(file: Path) -> dict[str, list]:
    records = []
    for number, line in enumerate(read_text(file).split("\n"), 1):  # not at U+2028 in a text
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:  # also numbers of over 4,300 digits
                reason = error.msg if isinstance(error, json.JSONDecodeError) else error
                raise UserError(f"{file}, line {number}: not JSON: {reason}") from error
            if not isinstance(record, dict):
                raise UserError(f"{file}, line {number}: expected an object a line")
            whole = json.dumps(record, ensure_ascii=False) if SURROGATE.search(line) else ""
            if any("\ud800" <= letter <= "\udfff" for letter in whole):
                message = "half a letter (a lone surrogate): mend it"
                raise UserError(f"{file}, line {number}: {message}")
            records.append(record)
    if not records:
        raise UserError(f"{file}: the file is empty")
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}
