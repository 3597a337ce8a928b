"""Rows of words with a tag each, and where their words stand among the tokens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import Config, DataConfig
from multitask.data.load import ids_if_any, listed, rows_of, texts_from_file
from multitask.data.readers.columns import column_of, read_columns
from multitask.data.readers.tables import table_of
from multitask.data.tokenize import Tokens
from multitask.tasks.label_reader import LabelReader, canonical
from multitask.tasks.lists import list_in
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError


def tagged_rows(config: Config, task: str, split: str, reader: LabelReader) -> Rows:
    """The rows of a split of tagged words; those without tags are dropped and counted.

    ``labels`` holds a row's tag ids, int64 [N, longest], -1 behind its last word. A test split may
    lack them. Raises UserError with file and row: no list of words, an empty one, another number of
    tags than of words, an unknown tag.
    """
    data = config.tasks[task].data
    columns, source = read_columns(config, task, split)
    rows = _with_words(data, columns, source)
    if split == "test" and data.label not in columns:
        return rows
    words = rows.words or []
    labels = np.full((len(rows), max(map(len, words))), -1, dtype=np.int64)
    missing = np.zeros(len(rows), dtype=bool)
    for i, cell in enumerate(column_of(columns, data, "label", source)):
        where = f"{source}, row {i + 1} (id {rows.ids[i]})"
        try:
            tags = _tags_in(cell, len(words[i]), data, reader)
        except ValueError as error:
            raise UserError(f"{where}: {data.label} {error}") from None
        if tags is None:
            missing[i] = True
            continue
        if len(tags) != len(words[i]):
            raise UserError(f"{where}: {len(words[i])} words, but {len(tags)} tags")
        for place, (word, tag) in enumerate(zip(words[i], tags, strict=True)):
            try:
                labels[i, place] = reader.read(tag)
            except ValueError as error:
                raise UserError(f"{where}: the tag of {word!r} is {tag!r}: {error}") from None
    if split == "test" and missing.any():
        return rows  # to be predicted
    if missing.all():
        raise UserError(f"{source}: no labelled rows ({len(rows)} without tags)")
    kept = replace(rows, labels=labels).take(np.flatnonzero(~missing))
    kept.unlabelled_dropped = int(missing.sum())
    return kept


def _tags_in(cell: Any, words: int, data: DataConfig, reader: LabelReader) -> list[str] | None:
    """The tags in a cell, without the padding beyond the last word; None for no tags.

    Raises ValueError for anything else.
    """
    found = reader.task_type.values_in(cell, set(map(canonical, data.unlabelled)), "")
    tags = None if found is None else list(found)
    while tags and len(tags) > words and canonical(tags[-1]) == canonical(data.padding_label):
        tags.pop()
    return tags


def words_from_file(data: DataConfig, file: Path) -> Rows:
    """Rows without tags from a file of one's own: a table with the task's column of words, CoNLL
    columns, or ``.txt`` with one sentence a line, its words separated by white space."""
    if file.suffix == ".txt":
        read = texts_from_file(data, file)
        return words_rows([text for (text,) in read.texts], 1, str(file))
    columns = table_of(data, file)
    return _with_words(ids_if_any(data, columns), columns, str(file))


def words_rows(texts: Iterable[str | Sequence[str]], sides: int, source: str) -> Rows:
    """Lists of words, or strings that white space splits, as rows without tags.

    ``sides`` is always 1. Raises UserError for anything else.
    """
    words = [_listed(one) for one in listed(texts, "sentences", source)]
    return _with_words(DataConfig(text="words"), {"words": words}, source)


def _listed(words: Any) -> Any:
    if isinstance(words, str):
        return words.split()
    return words if isinstance(words, Mapping) or not isinstance(words, Iterable) else [*words]


def _with_words(data: DataConfig, columns: dict[str, list], source: str) -> Rows:
    """The rows of a table; their text is their words with spaces between."""
    words = []
    for number, value in enumerate(column_of(columns, data, "text", source), 1):
        where = f"{source}, row {number}"
        try:
            row = list_in(value) if isinstance(value, str) else value
        except ValueError as error:
            raise UserError(f"{where}: {data.text} {error}") from None
        if not isinstance(row, list) or not all(isinstance(word, str) for word in row):
            raise UserError(f"{where}: {data.text} is {value!r:.60}: expected a list of words")
        if not row:
            raise UserError(f"{where}: {data.text} is an empty list: leave the row out")
        words.append(tuple(row))
    joined = {**columns, data.text: [" ".join(one) for one in words]}
    return replace(rows_of(data, joined, source), words=words)


def placed_tags(rows: Rows, tokens: Tokens) -> tuple[Tokens, int]:
    """The tokens with each tag at its word's first piece, and how many words have none there.

    Those lie behind ``max_length``, or hold no character that the tokenizer keeps. ``words`` says
    which word a piece is of. Without labels the places are marked all the same, with tag 0.
    """
    if tokens.spans is None or rows.words is None:
        raise ValueError("tags need words, and tokens that were made with their characters")
    targets = np.full(len(tokens.ids), -1, dtype=np.int32)
    numbers = np.full(len(tokens.ids), -1, dtype=np.int32)
    unseen = 0
    for i, words in enumerate(rows.words):
        start = tokens.offsets[i]
        begins, ends = tokens.spans[start : tokens.offsets[i + 1]].T
        lengths = np.array([len(word) for word in words])
        word_begins = np.concatenate([[0], np.cumsum(lengths[:-1] + 1)])
        # by a piece's last character: some tokenizers count the space before a word to its piece
        last = ends - 1
        word = np.searchsorted(word_begins, last, side="right") - 1
        inside = (ends > begins) & (last < (word_begins + lengths)[word])
        numbers[start : start + len(word)] = np.where(inside, word, -1)
        seen, first = np.unique(word[inside], return_index=True)
        places = start + np.flatnonzero(inside)[first]
        targets[places] = 0 if rows.labels is None else rows.labels[i, seen]
        unseen += len(words) - len(seen)
    return replace(tokens, targets=targets, words=numbers, spans=None), unseen


def tags_of_output(
    output: np.ndarray, rows: Rows, tokens: Tokens
) -> tuple[np.ndarray, np.ndarray, float]:
    """The head's (tag, probability, loss) of words [N, W, 3] -> tags, probabilities [N, longest].

    -1 and NaN for a word without a piece, and behind a row's last word. The loss is the mean over
    the words with a piece.
    """
    if tokens.words is None or tokens.targets is None or rows.words is None:
        raise ValueError("the rows hold no tagged words")
    shape = (len(rows), max(map(len, rows.words)))
    predictions, scores = np.full(shape, -1, dtype=np.int64), np.full(shape, np.nan)
    pieces = np.flatnonzero(tokens.targets >= 0)
    row = np.searchsorted(tokens.offsets, pieces, side="right") - 1
    counts = np.bincount(row, minlength=len(rows))
    number = np.arange(len(pieces)) - (np.cumsum(counts) - counts)[row]
    tags, chances, losses = output[row, number].T
    predictions[row, tokens.words[pieces]] = tags.astype(np.int64)
    scores[row, tokens.words[pieces]] = chances
    known = rows.labels is not None and len(losses) > 0
    return predictions, scores, float(losses.mean()) if known else float("nan")
