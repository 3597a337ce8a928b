"""Prediction files of courses: write them in three formats, and read these and their relatives.

A file has a header, whose first cell is ``id``, and a row per prediction:

- ``cs224n``: header ``id <tab> COLUMN``, rows ``ID , VALUE``
- ``dnlp``: header ``id,COLUMN``, rows ``ID<tab>VALUE``
- ``csv``: header ``id,COLUMN``, rows ``ID,VALUE``, quoted where needed
- rows ``ID, VALUE``, as in the GPT-2 project of CS224N, are read too
"""

import csv
import io
import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from multitask.data.labels import BITS
from multitask.data.readers.text_files import decoded, lines_of
from multitask.tasks.base import Array, RowLabels, TaskType
from multitask.tasks.label_reader import LabelReader, canonical, number_of
from multitask.tasks.list_cells import list_in
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError

# what parts id and value, the first one that a row has
SEPARATORS = ("\t", " , ", ",")


def can_hold(task_type: TaskType) -> bool:
    """Return True if a file can hold the predictions of a type: one value, or a set of classes."""
    several = isinstance(task_type, RowLabels) and task_type.described_by == "labels"
    return task_type.one_value or several


def course_text(form: str, column: str, ids: Sequence[str], values: Sequence[str]) -> str:
    """Write a file in the format ``form``, to the letter."""
    pairs = zip(ids, values, strict=True)
    if form == "cs224n":
        rows = [f"{name} , {value} \n" for name, value in pairs]
        return "".join([f"id \t {column} \n", *rows])
    if form == "dnlp":
        return "".join([f"id,{column}\n", *(f"{name}\t{value}\n" for name, value in pairs)])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("id", column), *pairs])
    return text.getvalue()


@dataclass(frozen=True)
class CourseFile:
    """The content of a file.

    Attributes:
        source: the name of the file in messages.
        ids: the id of each row.
        values: the prediction of each row.
        lines: the line of each row, from 1.
    """

    source: str
    ids: list[str]
    values: list[str]
    lines: list[int]

    def place(self, row: int) -> str:
        """Return ``FILE, line 3, row 2`` for a row, from 0."""
        return f"{self.source}, line {self.lines[row]}, row {row + 1}"


def read_course_file(raw: bytes, source: str) -> CourseFile:
    """Read a file in any of the formats; blank lines are skipped.

    Raises UserError, with file and row, for another form.
    """
    file = CourseFile(source, [], [], [])
    header = False
    for number, line in enumerate(lines_of(decoded(raw, source)), 1):
        if not line.strip():
            continue
        name, value = _cells(line)
        if not header:
            header = True
            if value is None or name.lower() != "id":
                expected = "expected a header such as `id,Predicted_Sentiment`"
                raise UserError(f"{source}, line {number}: {expected}, not {line.strip()!r:.60}")
            continue
        file.lines.append(number)
        if value is None or not name:
            place = file.place(len(file.ids))
            raise UserError(f"{place}: expected `ID, VALUE`, not {line.strip()!r:.60}")
        file.ids.append(name)
        file.values.append(value)
    if not file.ids:
        raise UserError(f"{source}: no predictions")
    return file


def _cells(line: str) -> tuple[str, str | None]:
    """Return id and value of a line; no value if the line has another form."""
    if line.startswith('"'):
        cells = next(csv.reader([line], delimiter="\t" if '"\t' in line else ","))
        name, *values = (cell.strip() for cell in cells)
        return name, values[0] if len(values) == 1 else None
    separator = next((each for each in SEPARATORS if each in line), None)
    if separator is None:
        return line.strip(), None
    name, _, value = (part.strip() for part in line.partition(separator))
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1].replace('""', '"')
    return name, value


def key_of(name: str) -> str:
    """Return an id as the courses' programs write it: they lower its letters."""
    return name.strip().lower()


def predictions_of(
    file: CourseFile, rows: Rows, reader: LabelReader, others: Collection[str] = ()
) -> Array:
    """Return the predictions of a file in the order of ``rows``, which have the same ids.

    ``others`` are ids that the file may have too, such as those of rows without a label. Raises
    UserError, with file and row, for a value that is no prediction of the task, and for a missing,
    repeated or unknown id.
    """
    read = _Values(rows, reader)
    at = placed(file, rows, others)
    predictions = []
    for row in at:
        try:
            predictions.append(read(file.values[row]))
        except ValueError as error:
            place = f"{file.place(row)} (id {file.ids[row]})"
            raise UserError(f"{place}: {file.values[row]!r:.60}: {error}") from None
    return np.array(predictions)


def placed(file: CourseFile, rows: Rows, others: Collection[str] = ()) -> list[int]:
    """Return the row of the file for each of ``rows``; see ``predictions_of``."""
    wanted: dict[str, str] = {}
    for name in rows.ids:
        if key_of(name) in wanted:
            message = f"two rows have the id {name!r}: predictions cannot be told apart by it"
            raise UserError(f"{rows.source}: {message}")
        wanted[key_of(name)] = name
    known = wanted.keys() | {*map(key_of, others)}
    first: dict[str, int] = {}
    for row, name in enumerate(file.ids):
        key = key_of(name)
        if key not in known:
            raise UserError(f"{file.place(row)}: the id {name!r} is not in {rows.source}")
        if key in first:
            before = f"the first is in line {file.lines[first[key]]}"
            raise UserError(f"{file.place(row)}: the id {name!r} is there twice: {before}")
        first[key] = row
    missing = [name for key, name in wanted.items() if key not in first]
    if missing:
        count = f"{len(missing):,} of {len(rows):,} ids of {rows.source} are missing"
        raise UserError(f"{file.source}: {count}, such as {missing[0]!r}")
    return [first[key] for key in wanted]


class _Values:
    """Reads the values of a task: the inverse of ``TaskType.course_values``."""

    def __init__(self, rows: Rows, reader: LabelReader) -> None:
        self.reader = reader
        # endings of a context have no names
        self.count = len(reader.names) or len(rows.texts[0]) - 1
        self.written: dict[str, int] = {}
        if reader.task_type.one_value and reader.task_type.described_by != "label_range":
            texts = reader.task_type.course_values(np.arange(self.count), reader)
            self.written = {canonical(text): number for number, text in enumerate(texts)}

    def __call__(self, text: str) -> float | list[int]:
        """Return a prediction. Raises ValueError with what was expected."""
        if not self.reader.task_type.one_value:
            with suppress(ValueError):  # a list of another form
                bits = [BITS.get(canonical(item)) for item in list_in(text) or ()]
                if len(bits) == self.count and None not in bits:
                    return [int(bool(bit)) for bit in bits]
            raise ValueError(f"expected {self.count} numbers, 0 or 1, such as [0, 1, 0]")
        if not self.written:
            number = number_of(text)
            if not math.isfinite(number):
                raise ValueError("expected a number")
            return number
        if canonical(text) in self.written:
            return self.written[canonical(text)]
        if self.reader.ids:
            return int(self.reader.read(text))
        raise ValueError(f"expected a whole number from 0 to {self.count - 1}")
