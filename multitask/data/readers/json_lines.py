"""Read JSON lines as columns by name; numbers stay as the file writes them."""

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from multitask.config import DataConfig
from multitask.data.readers.lines import lines_of
from multitask.data.readers.places import PlacedColumns
from multitask.tasks.label_reader import canonical
from multitask.utils.errors import UserError
from multitask.utils.limits import COLUMNS

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escaped surrogate, alone or one of a pair

Record = dict[str, object]


def read_json_lines(text: str, file: str, data: DataConfig) -> dict[str, list]:
    """Read the columns of a file with one JSON object per line, or with one list of objects.

    A number becomes the text in the file: `1` and `1.0` are two texts and two classes, as in CSV.
    `NaN` and `Infinity` without quotes are null.
    Raises UserError with file and line for anything else, and for a row without a text.
    """
    is_list = text.lstrip().startswith("[")
    lines = array("q")  # of each record
    records = list(_rows(text, file) if is_list else _lines(text, file, lines))
    if not records:
        raise UserError(f"{file}: the file is empty")
    names = dict.fromkeys(name for record in records for name in record)
    if len(names) > COLUMNS:
        raise UserError(f"{file}: {len(names):,} different keys, at most {COLUMNS:,} are read")
    for text_name in data.text_columns:
        if text_name in names:
            _check_text(records, lines, text_name, data=data, file=file)
    columns = {name: [record.get(name) for record in records] for name in names}
    return PlacedColumns.of(columns, file, lines)


def _lines(text: str, file: str, lines: "array[int]") -> Iterator[Record]:
    """Yield the record of each line, and add the number of the line to ``lines``."""
    for number, line in enumerate(lines_of(text), 1):  # lines do not end at U+2028
        if line.strip():
            lines.append(number)
            yield _record(_parsed(line, file, number), line, f"{file}, line {number}")


def _rows(text: str, file: str) -> Iterator[Record]:
    for number, value in enumerate(_parsed(text, file), 1):
        yield _record(value, text, f"{file}, row {number}")


def _parsed(text: str, file: str, line: int = 1) -> Any:
    """Parse a text that begins in a line of a file."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_distinct,
            parse_int=str,
            parse_float=str,
            parse_constant=_missing,
        )
    except json.JSONDecodeError as error:
        place = f"{file}, line {line + error.lineno - 1}"
        raise UserError(f"{place}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}, line {line}: not JSON: {error}") from error


def _missing(name: str) -> None:
    """Return null for NaN, Infinity and -Infinity, which Python writes for missing numbers."""


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, object]:
    """Make an object of its keys and values. Raises ValueError if a key is repeated."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r:.60} is repeated")
    return made


def _record(value: Any, text: str, place: str) -> Record:
    """Return a record that was written in ``text``. Raises UserError if it is none."""
    if not isinstance(value, dict):
        raise UserError(f"{place}: expected an object a line")
    decoded = json.dumps(value, ensure_ascii=False) if SURROGATE.search(text) else ""
    if any("\ud800" <= letter <= "\udfff" for letter in decoded):
        raise UserError(f"{place}: half a letter (a lone surrogate): mend it")
    return value


def _check_text(
    records: Sequence[Record], lines: Sequence[int], name: str, *, data: DataConfig, file: str
) -> None:
    """Raise UserError if a row that ``data.where`` keeps has no text."""
    wanted = {key: canonical(value) for key, value in (data.where or {}).items()}
    for row, record in enumerate(records):
        used = all(canonical(record.get(key)) == value for key, value in wanted.items())
        if used and record.get(name) is None:
            place = f"{file}, line {lines[row]}" if lines else f"{file}, row {row + 1}"
            message = f'{name!r} is missing or null: write "" for an empty text'
            raise UserError(f"{place}: {message} (NaN is read as null)")
