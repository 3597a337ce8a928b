"""The CoNLL column format: a word and its tag a line, a blank line between sentences."""

import re
from pathlib import Path

from multitask.utils.errors import UserError

DOCUMENT = "-DOCSTART-"  # a line of CoNLL-2003 that is no word


def read_conll(text: str, file: Path, word: str, tag: str) -> dict[str, list]:
    """The first column as lists of words, called ``word``, the last as lists of tags.

    Columns are separated by spaces or tabs. With one column there are no tags. Raises UserError
    with file and line where lines have other numbers of columns, or nothing stands there.
    """
    sentences: list[list[list[str]]] = [[]]
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
        sentences[-1].append(cells)
    kept = [sentence for sentence in sentences if sentence]
    if not kept:
        raise UserError(f"{file}: the file is empty")
    found = {word: [[cells[0] for cells in sentence] for sentence in kept]}
    if width != 1:
        found[tag] = [[cells[-1] for cells in sentence] for sentence in kept]
    return found
