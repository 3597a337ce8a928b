"""Rows of sequence tagging: words with one tag each, and the tokens of the words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import Config, DataConfig, TaskConfig
from multitask.data.inputs.base import Input, input_of
from multitask.data.load_rows import (
    hidden_label,
    ids_if_any,
    listed,
    rows_of,
    texts_from_file,
    without,
)
from multitask.data.readers.class_names import check_names
from multitask.data.readers.columns import column_of, read_columns
from multitask.data.readers.places import place_of
from multitask.data.readers.tables import table_of
from multitask.data.tokenize import Tokens
from multitask.tasks.label_reader import LabelReader, canonical
from multitask.tasks.list_cells import list_in
from multitask.tasks.rows import Rows
from multitask.tasks.token_classification import OUTSIDE, REPAIR, SCHEMES, breaks, repaired
from multitask.utils.errors import UserError, warn

FEW = 0.01  # share of the rows with entities that may break the scheme
SHOWN = 10  # rows that a message lists
REPAIRED = f"`tag_scheme: {REPAIR}`, which changes and counts the tags that break the scheme"


def tagged_rows(config: Config, task: str, split: str, reader: LabelReader) -> Rows:
    """Read a split of tagged words; drop and count rows without tags.

    ``labels`` has the tag ids, int64 [N, longest], with -1 after a row's last word. A test split
    may have no tags. Raises UserError with file and row if the words are not a list, the list is
    empty, the numbers of words and tags differ, a tag is unknown, or the tags break the scheme and
    are not to be repaired.
    """
    rows = _read(config, task, split, reader)
    if rows.labels is None:
        return rows
    missing = rows.labels[:, 0] < 0
    if split == "test" and missing.any():
        return replace(rows, labels=None)  # a test split to predict
    if config.tasks[task].data.tag_scheme == REPAIR:
        rows = _repaired(config, task, rows, reader)
    else:
        _check_scheme(config, task, split, rows=rows, reader=reader)
    return without(missing, rows, "tags")


def _read(config: Config, task: str, split: str, reader: LabelReader) -> Rows:
    """Read words and tags; rows without tags have -1 alone, a table without tags no labels."""
    data = config.tasks[task].data
    columns, source = read_columns(config, task, split)
    rows = _with_words(data, columns, source)
    if split == "test" and data.label not in columns:
        return rows
    check_names(config, task, reader, [split])
    words = rows.words or []
    labels = np.full((len(rows), max(map(len, words))), -1, dtype=np.int64)
    for i, cell in enumerate(column_of(columns, data, "label", source)):
        where = f"{place_of(columns, i, source)} (id {rows.ids[i]})"
        try:
            tags = _tags_in(cell, len(words[i]), data, reader)
        except ValueError as error:
            hint = hidden_label(data, cell, split)
            raise UserError(f"{where}: {data.label} {error}{hint}") from None
        if tags is None:
            continue
        if len(tags) != len(words[i]):
            raise UserError(f"{where}: {len(words[i])} words, but {len(tags)} tags")
        for place, (word, tag) in enumerate(zip(words[i], tags, strict=True)):
            try:
                labels[i, place] = reader.read(tag)
            except ValueError as error:
                message = f"the tag of {word!r} is {tag!r:.60}: {error}"
                hint = hidden_label(data, tags, split)
                raise UserError(f"{where}: {message}{hint}") from None
    return replace(rows, labels=labels)


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


def _check_scheme(
    config: Config, task: str, split: str, *, rows: Rows, reader: LabelReader
) -> None:
    """Raise UserError if ``data.tag_scheme`` cannot produce the tags of a split.

    A few broken rows are only a warning if no other scheme fits better.
    """
    scheme = reader.scheme
    places = breaks(rows.gold, reader.names, scheme)
    broken = np.flatnonzero(places.any(axis=1))
    if not len(broken):
        return
    first, place = broken[0], int(places[broken[0]].argmax())
    tags = [reader.names[tag] for tag in rows.gold[first] if tag >= 0]
    shown = " ".join(tags[max(0, place - 2) : place + 2])
    count = f"{len(broken):,} of {len(rows):,} rows, such as row {first + 1} (id {rows.ids[first]})"
    what = f"{rows.source}: {scheme} cannot produce the tags of {count}: {shown}."
    every = [rows.gold, *_labels_of_other_splits(config, task, split, reader)]
    counts = {
        name: sum(int(breaks(labels, reader.names, name).any(axis=1).sum()) for labels in every)
        for name in SCHEMES
    }
    best = [name for name in SCHEMES if counts[name] == min(counts.values())]
    advice = " or ".join(f"`tag_scheme: {name}`" for name in best)
    if counts[best[0]] == 0:
        message = f"{what} All tags of the task fit {' and '.join(best)}: set {advice}"
    elif scheme not in best:
        left = f"{counts[best[0]]:,} rows: set {advice}, and mend those rows, or set {REPAIRED}"
        message = f"{what} No scheme fits all tags; {' and '.join(best)} fits all but {left}"
    else:
        with_entities = (rows.gold >= 0) & (rows.gold != reader.names.index(OUTSIDE))
        if len(broken) <= FEW * with_entities.any(axis=1).sum():
            left = f"mark no entity ({_row_numbers(broken)})"
            warn(f"{what} Tags that break the scheme {left}: set {REPAIRED}")
            return
        rest = f"mend these rows, leave them out, or set {REPAIRED}: {_row_numbers(broken)}"
        message = f"{what} No scheme fits all tags: {rest}"
    raise config.error(("tasks", task, "data", "tag_scheme"), message)


def _labels_of_other_splits(
    config: Config, task: str, split: str, reader: LabelReader
) -> Iterator[np.ndarray]:
    """Yield the labels of each other split that can be read."""
    data = config.tasks[task].data
    names = {"train": data.train, "dev": data.dev or data.dev_share, "test": data.test}
    for other, source in names.items():
        with suppress(UserError):
            if (
                source
                and other != split
                and (rows := _read(config, task, other, reader)).labels is not None
            ):
                yield rows.labels


def _tags_in(cell: Any, words: int, data: DataConfig, reader: LabelReader) -> list[str] | None:
    """Read the tags in a cell, without the padding after the last word; None if it has none.

    Raises ValueError for anything else.
    """
    values = reader.task_type.values_in(cell, set(map(canonical, data.unlabelled)), "")
    tags = None if values is None else list(values)
    while tags and len(tags) > words and canonical(tags[-1]) == canonical(data.padding_label):
        tags.pop()
    return tags


def words_from_file(task: TaskConfig, file: Path) -> Rows:
    """Read rows without tags from a user's file.

    The file is a table with the task's column of words, CoNLL columns, or ``.txt`` with one
    sentence per line and white space between words.
    """
    if file.suffix.lower() == ".txt":
        read, form = texts_from_file(task, file), input_of(task)
        return words_rows([text for (text,) in read.texts], form, str(file))
    columns = table_of(task.data, file)
    return _with_words(ids_if_any(task.data, columns), columns, str(file))


def words_rows(texts: Iterable[str | Sequence[str]], form: Input, source: str) -> Rows:
    """Convert lists of words, or strings to split at white space, to rows without tags.

    ``form`` is always a single text. Raises UserError for anything else.
    """
    words = [_listed(sentence) for sentence in listed(texts, "sentences", source)]
    return _with_words(DataConfig(text="words"), {"words": words}, source)


def _listed(words: Any) -> Any:
    if isinstance(words, str):
        return words.split()
    unfit = isinstance(words, Mapping | Set) or not isinstance(words, Iterable)
    return words if unfit else [*words]


def _with_words(data: DataConfig, columns: dict[str, list], source: str) -> Rows:
    """Convert a table to rows with words; the text is the words joined by spaces."""
    words = []
    for number, value in enumerate(column_of(columns, data, "text", source)):
        where = place_of(columns, number, source)
        try:
            row = list_in(value) if isinstance(value, str) else value
        except ValueError as error:
            raise UserError(f"{where}: {data.text} {error}") from None
        if not isinstance(row, list) or not all(isinstance(word, str) for word in row):
            shown = " ".join(repr(value).split())
            raise UserError(f"{where}: {data.text} is {shown:.60}: expected a list of words")
        if not row:
            raise UserError(f"{where}: {data.text} is an empty list: leave the row out")
        words.append(tuple(row))
    joined = copy(columns)  # it knows the places of the rows
    joined[data.text] = [" ".join(row) for row in words]
    return replace(rows_of(data, joined, source), words=words)


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
