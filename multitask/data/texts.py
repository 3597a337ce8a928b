"""The texts of tasks without labels, and samples of rows."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from multitask.config import Config
from multitask.data.inputs.base import input_of
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError
from multitask.utils.limits import LONGEST_TEXT


def problem_of(text: str) -> str:
    """Say why a text cannot be used: it is too long, or no encoding can write it; "" if it can."""
    if len(text) > LONGEST_TEXT:
        most = f"the most is {LONGEST_TEXT:,}: split it"
        return f"has {len(text):,} characters, {most}"
    halves = not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)
    return "holds half a character: mend it" if halves else ""


def distinct_texts(parts: Iterable[Rows]) -> Rows:
    """Return each distinct text once; the texts of a pair are separate, empty texts are dropped.

    ``labels`` is the number of masked tokens of each text: 0 before masking. Raises UserError if
    no text is left.
    """
    parts = list(parts)
    distinct = dict.fromkeys(text for part in parts for row in part.texts for text in row)
    texts: list[tuple[str, ...]] = [(text,) for text in distinct if text.strip()]
    source = ", ".join(part.source for part in parts)
    if not texts:
        raise UserError(f"{source}: no texts")
    ids = [str(number) for number in range(len(texts))]
    return Rows(source, ids, texts, np.zeros(len(texts), dtype=np.int64))


def numbered(rows: Rows) -> Rows:
    """Number the texts: ``labels`` int64 [N, texts], the same number for equal texts."""
    keys = [" ".join(text.split()) for row in rows.texts for text in row]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    labels = np.array([numbers[key] for key in keys], dtype=np.int64)
    return replace(rows, labels=labels.reshape(len(rows), -1))


def unlabelled_rows(config: Config, task: str, parts: Iterable[Rows], reader: LabelReader) -> Rows:
    """Build the rows of a task without labels from ``parts``: its file, or its source tasks."""
    (first, *others) = parts
    single = input_of(config.tasks[task]).texts == 1
    rows = distinct_texts([first, *others]) if single else first
    return numbered(rows) if reader.task_type.compares_rows else rows


def sample(rows: Rows, size: int | None) -> Rows:
    """Take a random sample of ``size`` rows in file order, the same in every run; None: all."""
    if size is None or size >= len(rows):
        return rows
    index = np.sort(np.random.default_rng(1).permutation(len(rows))[:size])
    taken = rows.take(index)
    taken.unlabelled_dropped = rows.unlabelled_dropped
    return taken
