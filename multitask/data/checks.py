"""What is worth knowing about the rows before training: counts, duplicates, dev rows in train."""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np

from multitask.data.load import LabelReader, Rows, class_counts


def row_key(texts: tuple[str, ...]) -> tuple[str, ...]:
    """One key for a text, or for a pair in either order, white space apart."""
    return tuple(sorted(" ".join(text.split()) for text in texts))


def describe(rows: Rows, reader: LabelReader) -> dict[str, Any]:
    """Counts of one split, as they stand in the report."""
    keys = {row_key(texts) for texts in rows.texts}
    counts: dict[str, int] = {}
    if rows.labels is not None and reader.names:
        counts = dict(zip(reader.names, class_counts(rows.labels, len(reader.names)), strict=True))
    return {
        "rows": len(rows),
        "unlabelled_dropped": rows.unlabelled_dropped,
        "empty_texts": sum(any(not text.strip() for text in texts) for texts in rows.texts),
        "duplicates": len(rows) - len(keys),
        "label_counts": counts,
    }


def count_overlap(rows: Rows, train: list[Rows]) -> int:
    """Rows whose text (pair in either order) also occurs in any of the training parts."""
    return int(seen_rows(rows, text_sets(train, len(rows.texts[0]))).sum())


def text_sets(train: Iterable[Rows], size: int) -> set[tuple[str, ...]]:
    """The keys of every ``size`` texts that stand in one row: a triplet holds three pairs."""
    every = (texts for rows in train for texts in rows.texts)
    return {row_key(some) for texts in every for some in combinations(texts, size)}


def seen_rows(rows: Rows, seen: set[tuple[str, ...]]) -> np.ndarray:
    """Which rows are among what ``text_sets`` gave: bool [N]."""
    return np.array([row_key(texts) in seen for texts in rows.texts], dtype=bool)


def split_holdout(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """(kept, held out): a fixed random ``share`` of the distinct texts.

    The slice does not depend on the run's seed, so that runs of several seeds and methods are
    selected on the same rows; duplicates stay on one side.
    """
    keys = [row_key(texts) for texts in rows.texts]
    distinct = list(dict.fromkeys(keys))
    order = np.random.default_rng(0).permutation(len(distinct))
    held = {distinct[i] for i in order[: round(share * len(distinct))]}
    kept_rows = [i for i, key in enumerate(keys) if key not in held]
    held_rows = [i for i, key in enumerate(keys) if key in held]
    kept = rows.take(kept_rows)
    kept.unlabelled_dropped = rows.unlabelled_dropped
    return kept, rows.take(held_rows)


def subset(rows: Rows, size: int) -> Rows:
    """A fixed random subset of ``size`` rows, in file order; the same in every run."""
    if size >= len(rows):
        return rows
    index = np.sort(np.random.default_rng(1).permutation(len(rows))[:size])
    taken = rows.take(index)
    taken.unlabelled_dropped = rows.unlabelled_dropped
    return taken
