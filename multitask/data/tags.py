"""Rows of sequence tagging: words with one tag each, and the tokens of the words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import Config, DataConfig, TaskConfig
from multitask.data.inputs.base import Input, input_of
from multitask.data.labels import each_label
from multitask.data.readers.columns import Table
from multitask.data.texts import listed, rows_of, table_of_file, texts_from_file
from multitask.data.tokenize import Tokens
from multitask.tasks.label_reader import LabelReader, canonical
from multitask.tasks.list_cells import list_in
from multitask.tasks.rows import Rows
from multitask.tasks.token_classification import OUTSIDE, REPAIR, SCHEMES, breaks, repaired
from multitask.utils.errors import UserError, warn

FEW = 0.01  # share of the rows with entities that may break the scheme
SHOWN = 10  # rows that a message lists
REPAIRED = f"`tag_scheme: {REPAIR}`, which changes and counts the tags that break the scheme"


def tagged_rows(
    config: Config, task: str, table: Table, rows: Rows, *, split: str, reader: LabelReader
) -> Rows:
    """Add the tags of each row's words.

    ``labels`` has the tag ids, int64 [N, longest], with -1 after a row's last word, and -1 alone
    without tags. Raises UserError with file and row if the numbers of words and tags differ, a tag
    is unknown, or the tags break the scheme and are not to be repaired.
    """
    data, words = config.tasks[task].data, rows.words or []
    skip = set(map(canonical, data.unlabelled))

    def read(cell: Any, row: int) -> list[float] | None:
        values = reader.task_type.values_in(cell, skip, "")
        if values is None:
            return None
        tags, count = [*values], len(words[row])
        while len(tags) > count and canonical(tags[-1]) == canonical(data.padding_label):
            tags.pop()
        if len(tags) != count:
            raise ValueError(f"has {len(tags)} tags for {count} words")
        ids = []
        for word, tag in zip(words[row], tags, strict=True):
            try:
                ids.append(reader.read(tag))
            except ValueError as error:
                raise ValueError(f"of {word!r} is {tag!r:.60}: {error}") from None
        return ids

    labels = np.full((len(rows), max(map(len, words))), -1, dtype=np.int64)
    for row, ids in each_label(data, table, rows, read, split=split):
        labels[row, : len(ids)] = ids
    if split == "test" and (labels[:, 0] < 0).any():
        return rows  # a test split to predict
    rows = replace(rows, labels=labels)
    if data.tag_scheme == REPAIR:
        return _repaired(config, task, rows, reader)
    _check_scheme(config, task, rows, reader)
    return rows


def _repaired(config: Config, task: str, rows: Rows, reader: LabelReader) -> Rows:
    """Repair the rows whose tags break the scheme; a warning says what was changed."""
    labels, scheme = rows.gold.copy(), reader.scheme
    broken = np.flatnonzero(breaks(labels, reader.names, scheme).any(axis=1))
    changes: Counter[str] = Counter()
    for row in broken:
        tags = [reader.names[tag] for tag in labels[row] if tag >= 0]
        for place, (old, new) in enumerate(zip(tags, repaired(tags, scheme), strict=True)):
            if new not in reader.names:
                message = f"{old} of {rows.source}, row {row + 1}, is to become {new}: name it too"
                raise config.error(("tasks", task, "data", "labels"), message)
            labels[row, place] = reader.names.index(new)
            changes[f"{old} -> {new}"] += old != new
    if len(broken):
        kinds = ", ".join(f"{change}: {count:,}" for change, count in (+changes).most_common(SHOWN))
        what = f"{changes.total():,} tags in {len(broken):,} of {len(rows):,} rows were repaired"
        warn(f"{rows.source}: {what} to fit {scheme} ({kinds}; {_row_numbers(broken)})")
    return replace(rows, labels=labels)


def _row_numbers(rows: np.ndarray) -> str:
    """List the first rows, counted from 1."""
    shown = ", ".join(str(row + 1) for row in rows[:SHOWN])
    return f"rows {shown}" + ", ..." * (len(rows) > SHOWN)


def _check_scheme(config: Config, task: str, rows: Rows, reader: LabelReader) -> None:
    """Raise UserError if ``data.tag_scheme`` cannot produce the tags of a split.

    A few broken rows are only a warning if no other scheme fits all rows.
    """
    places = breaks(rows.gold, reader.names, reader.scheme)
    broken = np.flatnonzero(places.any(axis=1))
    if not len(broken):
        return
    first, place = broken[0], int(places[broken[0]].argmax())
    tags = [reader.names[tag] for tag in rows.gold[first] if tag >= 0]
    shown = " ".join(tags[max(0, place - 2) : place + 2])
    count = f"{len(broken):,} of {len(rows):,} rows, such as row {first + 1} (id {rows.ids[first]})"
    what = f"{rows.source}: {reader.scheme} cannot produce the tags of {count}: {shown}."
    fitting = [s for s in SCHEMES if not breaks(rows.gold, reader.names, s).any()]
    if fitting:
        advice = " or ".join(f"`tag_scheme: {scheme}`" for scheme in fitting)
        message = f"{what} All tags fit {' and '.join(fitting)}: set {advice}"
        raise config.error(("tasks", task, "data", "tag_scheme"), message)
    with_entities = (rows.gold >= 0) & (rows.gold != reader.names.index(OUTSIDE))
    what += f" Mend the rows, or set {REPAIRED}: {_row_numbers(broken)}"
    if len(broken) > FEW * with_entities.any(axis=1).sum():
        raise config.error(("tasks", task, "data", "tag_scheme"), what)
    warn(f"{what}. Until then these tags mark no entity")


def words_from_file(task: TaskConfig, file: Path) -> Rows:
    """Read rows without tags from a user's file.

    The file is a table with the task's column of words, CoNLL columns, or ``.txt`` with one
    sentence per line and white space between words.
    """
    if file.suffix.lower() == ".txt":
        read, form = texts_from_file(task, file), input_of(task)
        return words_rows([text for (text,) in read.texts], form, str(file))
    return rows_of_words(*table_of_file(task.data, file))


def words_rows(texts: Iterable[str | Sequence[str]], form: Input, source: str) -> Rows:
    """Convert lists of words, or strings to split at white space, to rows without tags.

    ``form`` is always a single text. Raises UserError for anything else.
    """
    words = [_listed(sentence) for sentence in listed(texts, "sentences", source)]
    return rows_of_words(DataConfig(text="words"), Table({"words": words}, source))


def _listed(words: Any) -> Any:
    if isinstance(words, str):
        return words.split()
    unfit = isinstance(words, Mapping | Set) or not isinstance(words, Iterable)
    return words if unfit else [*words]


def rows_of_words(data: DataConfig, table: Table) -> Rows:
    """Convert a table to rows with words; the text is the words joined by spaces."""
    words = []
    for row, cell in enumerate(table.column(data.text, "text")):
        try:
            listed_words: Any = list_in(cell) if isinstance(cell, str) else cell
            fits = isinstance(listed_words, list)
            if not (fits and all(isinstance(word, str) for word in listed_words)):
                shown = " ".join(repr(cell).split())
                raise ValueError(f"is {shown:.60}: expected a list of words")
            if not listed_words:
                raise ValueError("is an empty list: leave the row out")
        except ValueError as error:
            raise UserError(f"{table.place(row)}: {data.text} {error}") from None
        words.append(tuple(listed_words))
    joined = copy(table)  # it knows the places of the rows
    joined[data.text] = [" ".join(row) for row in words]
    return replace(rows_of(data, joined), words=words)


def placed_tags(rows: Rows, tokens: Tokens) -> tuple[Tokens, int]:
    """Put each tag at the first token of its word; also count the words without a token.

    A word has no token if it is beyond ``max_length``, or if the tokenizer drops all its
    characters; ``without_piece`` counts the latter. ``words`` has the number of each token's word.
    Without labels every word gets tag 0, so that the first tokens are marked.
    """
    assert tokens.spans is not None and rows.words is not None, "tags need words and characters"
    targets = np.full(len(tokens.ids), -1, dtype=np.int32)
    numbers = np.full(len(tokens.ids), -1, dtype=np.int32)
    unseen, dropped = 0, np.zeros(len(rows), dtype=np.int64)
    for i, words in enumerate(rows.words):
        start = tokens.offsets[i]
        begins, ends = tokens.spans[start : tokens.offsets[i + 1]].T
        lengths = np.array([len(word) for word in words])
        word_begins = np.concatenate([[0], np.cumsum(lengths[:-1] + 1)])
        # compare the last character: some tokens start at the space before the word
        last = ends - 1
        word = np.searchsorted(word_begins, last, side="right") - 1
        inside = (ends > begins) & (last < (word_begins + lengths)[word])
        numbers[start : start + len(word)] = np.where(inside, word, -1)
        seen, first = np.unique(word[inside], return_index=True)
        places = start + np.flatnonzero(inside)[first]
        targets[places] = 0 if rows.labels is None else rows.labels[i, seen]
        unseen += len(words) - len(seen)
        # in a sequence that was cut, the words after the last seen one are beyond `max_length`
        end = max(seen, default=-1) + 1 if tokens.truncated[i] else len(words)
        dropped[i] = end - len(seen)
    tokens = replace(tokens, targets=targets, words=numbers, spans=None, without_piece=dropped)
    return tokens, unseen


def tags_of_output(
    output: np.ndarray, rows: Rows, tokens: Tokens
) -> tuple[np.ndarray, np.ndarray, float]:
    """Convert the head's (tag, probability, loss) per word [N, W, 3] to tags, probabilities, loss.

    Tags and probabilities are [N, longest]; -1 and NaN for words without a token and after a row's
    last word. The loss is the mean over the words with a token.
    """
    assert tokens.words is not None and tokens.targets is not None and rows.words is not None
    shape = (len(rows), max(map(len, rows.words)))
    predictions, scores = np.full(shape, -1, dtype=np.int64), np.full(shape, np.nan)
    pieces = np.flatnonzero(tokens.targets >= 0)
    row = np.searchsorted(tokens.offsets, pieces, side="right") - 1
    counts = np.bincount(row, minlength=len(rows))
    number = np.arange(len(pieces)) - (np.cumsum(counts) - counts)[row]
    tags, chances, losses = output[row, number].T
    predictions[row, tokens.words[pieces]] = tags.astype(np.int64)
    scores[row, tokens.words[pieces]] = chances
    has_loss = rows.labels is not None and len(losses) > 0
    return predictions, scores, float(losses.mean()) if has_loss else float("nan")
