"""Read files as columns by name: CSV, TSV, JSON lines, Parquet, CoNLL, one text per line."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from multitask.config import DataConfig
from multitask.data.readers.conll import read_conll
from multitask.data.readers.documents import read_documents
from multitask.data.readers.json_lines import read_json_lines
from multitask.data.readers.lines import read_cells, read_lines, read_text
from multitask.data.readers.parquet import read_parquet
from multitask.data.readers.places import PlacedColumns
from multitask.data.readers.separated import read_separated
from multitask.utils.errors import UserError, reading

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
    """Read a user's file in the format of its ending. Raises UserError if that is unknown."""
    form = FORMATS.get(file.suffix.lower())
    if form is None:
        endings = ", ".join(FORMATS)
        raise UserError(f"{file}: cannot tell the format: give it one of the endings {endings}")
    return read_table(file, form, data)


def read_table(file: Path, form: str, data: DataConfig, name: str = "") -> dict[str, list]:
    """Read a file's columns as ``data`` describes.

    ``name`` is the file of a table or of JSON lines in error messages; default: its path. Raises
    UserError with file and line.
    """
    name = name or str(file)
    with reading(name):
        return _read_table(file, form, data, name)


def _read_table(file: Path, form: str, data: DataConfig, name: str) -> dict[str, list]:
    if form == "txt":
        lines = [(n, line) for n, line in enumerate(read_lines(file), 1) if line.strip()]
        columns = {data.text: [line for _, line in lines]}
        return PlacedColumns.of(columns, name, [number for number, _ in lines])
    if form in ("csv", "tsv"):
        return read_separated(read_cells(file, name), name, "," if form == "csv" else "\t", data)
    if form == "jsonl":
        return read_json_lines(read_text(file, name), name, data)
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


def joined(tables: Sequence[tuple[str, Mapping[str, list]]]) -> PlacedColumns:
    """Concatenate the rows of tables, given with their names.

    Raises UserError if they do not have the same columns.
    """
    placed = [
        table if isinstance(table, PlacedColumns) else PlacedColumns.of(table, name)
        for name, table in tables
    ]
    (first, columns), *others = tables
    for name, table in others:
        if set(table) != set(columns):
            raise UserError(f"{name}: its columns are not those of {first}")
    if not others:
        return placed[0]
    together = {name: [value for table in placed for value in table[name]] for name in columns}
    made = PlacedColumns(together)
    made.parts = [part for table in placed for part in table.parts]
    return made
