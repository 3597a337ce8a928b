"""Files as columns by name: CSV, TSV, JSON lines, Parquet, CoNLL columns, one text a line."""

import json
import re
from pathlib import Path

from multitask.config import DataConfig
from multitask.data.readers.conll import read_conll
from multitask.data.readers.documents import read_documents
from multitask.data.readers.parquet import read_parquet
from multitask.data.readers.separated import read_separated
from multitask.utils.errors import UserError, reading

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
    return read_table(file, form, data)


def read_text(file: Path) -> str:
    """A UTF-8 file's text, without a byte order mark. Raises UserError where it cannot be read.

    Carriage returns stay, for they may be part of a text. Where they end all lines, line feeds
    replace them.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig")
        return text if "\n" in text else text.replace("\r", "\n")
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 at byte {error.start}: save it as UTF-8") from error


def read_lines(file: Path) -> list[str]:
    """The lines of a UTF-8 file; behind the last line end there is none."""
    lines = [line.removesuffix("\r") for line in read_text(file).split("\n")]
    return lines if lines[-1] else lines[:-1]


def read_table(file: Path, form: str, data: DataConfig) -> dict[str, list]:
    """A file's columns by name, read as ``data`` says. Raises UserError with file and line."""
    with reading(file):
        return _read_table(file, form, data)


def _read_table(file: Path, form: str, data: DataConfig) -> dict[str, list]:
    if form == "txt":
        return {data.text: [line for line in read_lines(file) if line.strip()]}
    if form in ("csv", "tsv"):
        return read_separated(read_text(file), file, "," if form == "csv" else "\t", data)
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
    return read_parquet(file)


def _read_jsonl(file: Path) -> dict[str, list]:
    records = []
    for number, line in enumerate(read_lines(file), 1):  # not at U+2028 in a text
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
