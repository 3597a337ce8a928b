"""The texts of a task without labels (masked tokens, contrastive), and any task's rows by split."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from multitask.config import Config
from multitask.config.registry import imported
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError


def distinct_texts(parts: Iterable[Rows]) -> Rows:
    """Each distinct text of some rows once, the sides of a pair apart; empty ones are left out.

    ``labels`` is the number of masked tokens of each text, 0 as long as none is masked. Raises
    UserError where no text is left.
    """
    parts = list(parts)
    texts = dict.fromkeys(text for part in parts for row in part.texts for text in row)
    kept: list[tuple[str, ...]] = [(text,) for text in texts if text.strip()]
    source = ", ".join(part.source for part in parts)
    if not kept:
        raise UserError(f"{source}: no texts")
    ids = [str(number) for number in range(len(kept))]
    return Rows(source, ids, kept, np.zeros(len(kept), dtype=np.int64))


def numbered(rows: Rows) -> Rows:
    """The rows with the number of each text as ``labels``, int64 [N, texts]: equal texts alike."""
    keys = [" ".join(text.split()) for row in rows.texts for text in row]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    found = np.array([numbers[key] for key in keys], dtype=np.int64)
    return replace(rows, labels=found.reshape(len(rows), -1))


def unlabelled_rows(config: Config, task: str, parts: Iterable[Rows], reader: LabelReader) -> Rows:
    """The rows of a task without labels, made of the rows of its sources or of its own file."""
    (first, *others) = parts
    single = config.tasks[task].input == "single"
    rows = distinct_texts([first, *others]) if single else first
    return numbered(rows) if reader.task_type.compares_rows else rows


def split_rows(config: Config, task: str, split: str, readers: Mapping[str, LabelReader]) -> Rows:
    """The rows of a split, as its label type is read; of a task without labels, its texts."""
    sources = config.tasks[task].data.texts_of or [task]
    parts = [
        imported(readers[one].task_type.load_rows)(config, one, split, readers[one])
        for one in sources
    ]
    if readers[task].task_type.labelled:
        return parts[0]
    return unlabelled_rows(config, task, parts, readers[task])
