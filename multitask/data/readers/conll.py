"""The CoNLL column format: one word and its tag per line, blank lines between sentences."""

import re
from pathlib import Path

from multitask.data.readers.places import PlacedColumns
from multitask.utils.errors import UserError

DOCUMENT = "-DOCSTART-"  # a line of CoNLL-2003 that is not a word


def read_conll(text: str, file: Path, word: str, tag: str) -> dict[str, list]:
    """Read the first column as the words of each sentence, and the last as its tags.

    ``word`` and ``tag`` are the names of the two columns that are returned. Columns in the file are
    separated by spaces or tabs. A file with one column has no tags. Raises UserError with file and
    line if the number of columns changes, or if the file is empty.
    """
    sentences: list[list[list[str]]] = [[]]
    lines: list[int] = []  # the first line of each sentence
    width = None
    for number, line in enumerate(text.split("\n"), 1):
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
    columns = {word: [[cells[0] for cells in sentence] for sentence in filled]}
    if width != 1:
        columns[tag] = [[cells[-1] for cells in sentence] for sentence in filled]
    return PlacedColumns.of(columns, str(file), lines)
