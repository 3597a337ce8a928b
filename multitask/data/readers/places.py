"""Where the rows of a table are written: file, line and row, for error messages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# a file in which ``multitask.train(rows=...)`` keeps rows of Python
ROWS_OF_PYTHON = re.compile(r"rows/[0-9a-f]{16}\.parquet")


@dataclass(frozen=True)
class Part:
    """The rows of one file.

    Attributes:
        file: its name in messages.
        rows: the number of its rows.
        lines: the first line of each row, from 1; empty if the format has no lines.
    """

    file: str
    rows: int
    lines: Sequence[int] = ()


class PlacedColumns(dict[str, list]):
    """Columns by name, which know where each of their rows is written.

    Attributes:
        parts: the files, in the order of their rows.
        chosen: the rows of all files that are left, from 0; None: all.
    """

    parts: Sequence[Part]
    chosen: Sequence[int] | None = None

    @classmethod
    def of(cls, columns: Mapping[str, list], file: str, lines: Sequence[int] = ()) -> Self:
        """Place the columns of one file."""
        made = cls(columns)
        made.parts = [Part(file, len(next(iter(columns.values()), [])), lines)]
        return made

    def take(self, chosen: Sequence[int]) -> Self:
        """Return these rows, from 0; all rows of the files are still there."""
        made = type(self)({name: [values[i] for i in chosen] for name, values in self.items()})
        made.parts, made.chosen = self.parts, chosen
        return made

    def place(self, row: int) -> str:
        """Return ``FILE, line 3, row 2`` for a row, from 0; a row is counted in its file from 1."""
        number = row if self.chosen is None else self.chosen[row]
        part = self.parts[0]
        for part in self.parts:
            if number < part.rows:
                break
            number -= part.rows
        line = f", line {part.lines[number]}" if part.lines else ""
        return f"{part.file}{line}, row {number + 1}"


def source_of(file: Path, task: str) -> str:
    """Name a file of a task's rows in messages; the user has not seen one with rows of Python."""
    given = ROWS_OF_PYTHON.fullmatch("/".join(file.parts[-2:]))
    return f"rows of task {task}" if given else str(file)


def place_of(columns: Mapping[str, list], row: int, source: str) -> str:
    """Return the place of a row, from 0; of columns without places ``SOURCE, row 2``."""
    if isinstance(columns, PlacedColumns):
        return columns.place(row)
    return f"{source}, row {row + 1}"
