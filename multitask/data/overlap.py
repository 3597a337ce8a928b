"""Find rows that are also in training data, as the encoder sees them.

Two rows are equal if their texts have the same token ids, without special tokens and in any order,
or if their texts are equal but for white space. The ids tell more: case, accents and unknown words
that the tokenizer drops make no difference. The texts alone tell where two tasks cut them at
different lengths.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, combinations
from typing import Any

import numpy as np

from multitask.config import Config
from multitask.config.registry import input_type
from multitask.data.tokenize import AT_ONCE, Split, Tokens, tokenize
from multitask.tasks.rows import Rows

Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Seen:
    """The rows of a split that are in training data.

    Attributes:
        own: True for rows that the evaluation of the task should not repeat, bool [N].
        others: the same for the rows of each other task that has some of them.
    """

    own: np.ndarray
    others: dict[str, np.ndarray]

    @property
    def in_others(self) -> int:
        """The number of rows that any other task trains on."""
        return int(np.any([*self.others.values()], axis=0).sum())


def row_key(texts: Sequence[str]) -> tuple[str, ...]:
    """Return a key that ignores white space and the order of a pair."""
    return tuple(sorted([" ".join(text.split()) for text in texts]))


def hashes(keys: Iterable[Hashable]) -> np.ndarray:
    """Return a 64-bit hash of each key, int64 [N], which needs a thirtieth of the memory.

    That any two of a million keys have the same hash has a probability of 3e-8.
    """
    return np.fromiter(map(hash, keys), np.int64)


def separators(tokenizer: Any) -> list[int]:
    """Return the ids of the tokens around texts: [CLS], [SEP] and the like."""
    ids = (getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "bos", "eos"))
    return sorted({number for number in ids if number is not None})


def encoded_keys(split: Split, special: Collection[int]) -> Iterator[tuple[bytes, ...]]:
    """Yield each row's key: the sorted token ids of its texts.

    ``special`` are the ids around texts. A text that is read in windows has an entry per window.
    """
    rows, texts = np.arange(len(split.rows)), len(split.rows.texts[0])
    bare = replace(split.tokens, words=None, targets=None, spans=None, answers=None)
    for start in range(0, len(rows), AT_ONCE):
        yield from _id_keys(bare.take(rows[start : start + AT_ONCE]), texts, special)


def _id_keys(tokens: Tokens, texts: int, special: Collection[int]) -> list[tuple[bytes, ...]]:
    inside = ~np.isin(tokens.ids, [*special])
    at_start, at_end = np.zeros((2, len(inside)), dtype=bool)
    at_start[tokens.offsets[:-1]] = at_end[tokens.offsets[1:] - 1] = True
    at_start[1:] |= ~inside[:-1]
    at_end[:-1] |= ~inside[1:]
    starts, ends = np.flatnonzero(inside & at_start), np.flatnonzero(inside & at_end) + 1
    sequences = np.searchsorted(tokens.offsets, starts, side="right") - 1
    rows = tokens.row_of[sequences % len(tokens)].tolist()
    sides = (sequences // len(tokens)).tolist()
    ids, size = tokens.ids.tobytes(), tokens.ids.itemsize
    parts: list[list[bytes]] = [[] for _ in range(tokens.row_of[-1] + 1)]
    for row, side, start, end in zip(rows, sides, starts.tolist(), ends.tolist(), strict=True):
        if side < texts:  # a contrastive task has two equal views of a text
            parts[row].append(ids[size * start : size * end])
    # a text that several sequences of a row repeat counts once
    repeats = [tokens.owners is not None or len(row) > texts for row in parts]
    parts = [list(set(row)) if twice else row for row, twice in zip(parts, repeats, strict=True)]
    return [tuple(sorted([*row, *[b""] * (texts - len(row))])) for row in parts]


def row_keys(split: Split, special: Collection[int]) -> Iterator[Key]:
    """Yield the two keys of each row, by token ids and by texts: equal rows share one of them."""
    texts = map(row_key, split.rows.texts)
    return chain.from_iterable(zip(encoded_keys(split, special), texts, strict=True))


def known_hashes(keys: Iterable[Key], size: int) -> np.ndarray:
    """Return the hashes of keys and of all their parts with ``size`` texts, sorted: int64 [N].

    A triplet contains three pairs.
    """
    return np.unique(hashes(part for key in keys for part in (key, *combinations(key, size))))


def are_in(rows: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return True for each row that has one of its two hashes [2 N] in ``known``: bool [N]."""
    return np.any(np.isin(rows, known).reshape(-1, 2), axis=1)


def in_training(
    config: Config, splits: Mapping[str, Mapping[str, Split]], special: Collection[int]
) -> dict[str, dict[str, Seen]]:
    """Return which dev and test rows of each task are in training data; see ``Seen``."""

    def keys(task: str, name: str) -> Iterator[Key]:
        return row_keys(splits[task][name], special)

    @cache
    def trained(task: str, size: int) -> np.ndarray:
        parts = [name for name in ("train", "holdout") if name in splits[task]]
        every = chain.from_iterable(keys(task, name) for name in parts)
        return known_hashes(every, size)

    def seen(task: str, name: str) -> Seen:
        rows, size = hashes(keys(task, name)), len(splits[task][name].rows.texts[0])
        own, others = training_tasks(config, task)
        by_task = {source: are_in(rows, trained(source, size)) for source in (*own, *others)}
        none = np.zeros(len(rows) // 2, dtype=bool)
        return Seen(
            np.any([none, *(by_task[source] for source in own)], axis=0),
            {source: by_task[source] for source in others if by_task[source].any()},
        )

    return {
        task: {name: seen(task, name) for name in ("dev", "test") if name in parts}
        for task, parts in splits.items()
    }


def training_tasks(config: Config, task: str) -> tuple[list[str], list[str]]:
    """Return the tasks on whose rows a task trains, and the trained tasks that have other rows.

    Of a task that is only evaluated, the first ones are all trained tasks.
    """
    trained = config.trained_tasks()
    host = config.selecting_tasks()[task]
    if config.tasks[task].evaluate_only or host not in trained:
        return trained, []
    files = {name: row_owners(config, name) for name in trained}
    return [host], [name for name in trained if files[name].isdisjoint(files[host])]


def row_owners(config: Config, task: str) -> set[str]:
    """Return the tasks whose files have the rows of a task."""
    data = config.tasks[task].data
    return set(data.texts_of or [data.same_rows_as or task])


def pair_finder(
    splits: Iterable[Split], tokenizer: Any, max_length: int
) -> Callable[[Rows], np.ndarray]:
    """Return a function that tells which pairs are in the rows of ``splits``: bool [N].

    It compares by the keys of ``in_training``; each text of a pair is cut at ``max_length`` tokens.
    """
    special = separators(tokenizer)
    known = known_hashes((key for split in splits for key in row_keys(split, special)), 2)

    def are_known(rows: Rows) -> np.ndarray:
        if not rows.texts or not len(known):
            return np.zeros(len(rows), dtype=bool)
        arrange = input_type("siamese").arrange
        tokens = tokenize(rows, tokenizer, max_length=max_length, arrange=arrange)
        return are_in(hashes(row_keys(Split(rows, tokens), special)), known)

    return are_known
