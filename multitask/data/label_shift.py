"""Warn of labels that may be misread: of splits with another distribution, and of padding."""

from collections.abc import Mapping

import numpy as np

from multitask.config import Config
from multitask.data.classes import takes_sets
from multitask.data.tokenize import Split
from multitask.tasks.label_reader import LabelReader, number_of
from multitask.tasks.rows import Rows

# Labels that only one split has are suspicious if random splits of the same rows have as many of
# them with a probability below CHANCE, or below DISJOINT if the splits have no label in common,
CHANCE, DISJOINT = 1e-3, 1e-2
# and if they are at least this share of the split: a few rare labels do not mean another scale.
SHARE = 0.1
DRAWS = 2_000  # random splits that are tried
PARTS = 10  # of the range of numbers, which are compared as if they were classes
PADDED = 0.9  # a class that so many training rows have may fill up their lists
SHOWN = 5  # the number of classes that a warning lists


def label_warnings(
    config: Config, splits: Mapping[str, Mapping[str, Split]], readers: Mapping[str, LabelReader]
) -> list[str]:
    """Compare the labels of dev and test with those of train; return one line per difference.

    A task that is only scored is compared with the rows that its head trains on.
    """
    warnings = []
    for task, host in config.selecting_tasks().items():
        if readers[host].task_type is not readers[task].task_type or "train" not in splits[host]:
            continue
        train = splits[host]["train"].rows
        for name in ("dev", "test"):
            rows = splits[task][name].rows if name in splits[task] else None
            if rows is None or train.labels is None or rows.labels is None:
                continue
            problem = other_labels({"train": train, name: rows}, readers[task])
            if problem:
                warnings.append(f"{task}: {problem}")
    return warnings


def other_labels(pair: Mapping[str, Rows], reader: LabelReader) -> str:
    """Describe labels that one of two splits lacks; "" if that may be chance.

    Numbers are compared by the parts of their range in which they are.
    """
    train, other = pair
    gold = {split: rows.gold for split, rows in pair.items()}
    if reader.names:
        by_name = {
            split: reader.task_type.label_counts(rows, reader) for split, rows in pair.items()
        }
        counts = {split: np.array([*found.values()]) for split, found in by_name.items()}
    elif reader.task_type.described_by == "label_range":
        edges = np.histogram_bin_edges(np.concatenate([*gold.values()]), PARTS)
        counts = {split: np.histogram(numbers, edges)[0] for split, numbers in gold.items()}
    else:
        return ""
    nothing_shared = not (counts[train] * counts[other]).any()
    if _chance(counts[train], counts[other]) >= (DISJOINT if nothing_shared else CHANCE):
        return ""
    for split, lacks in ((other, train), (train, other)):
        alone, size = counts[split] * (counts[lacks] == 0), counts[split].sum()
        if alone.sum() < SHARE * size:
            continue
        if not reader.names:
            ranges = (
                f"from {side.min():g} to {side.max():g} in {name}" for name, side in gold.items()
            )
            return f"the labels are {' and '.join(ranges)}: are both on one scale?"
        listed = ", ".join(np.array(reader.names)[alone > 0][:SHOWN])
        listed += ", ..." * bool(np.count_nonzero(alone) > SHOWN)
        what = (
            f"{alone.sum():,} of {size:,} labels in {split} are classes that {lacks} does not have"
        )
        return f"{what} ({listed}): do both files name them alike?"
    return ""


def _chance(counts: np.ndarray, others: np.ndarray) -> float:
    """Return the share of random splits whose classes differ as much, given counts by class."""

    def difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Add up, over both splits, the share of labels that only this split has."""
        alone = (first * (second == 0)).sum(-1) / max(1, counts.sum())
        rest: np.ndarray = alone + (second * (first == 0)).sum(-1) / max(1, others.sum())
        return rest

    every = counts + others
    drawn = np.random.default_rng(0).multivariate_hypergeometric(every, counts.sum(), DRAWS)
    return float((difference(drawn, every - drawn) >= difference(counts, others) - 1e-9).mean())


def padding_warnings(
    config: Config, splits: Mapping[str, Mapping[str, Split]], readers: Mapping[str, LabelReader]
) -> list[str]:
    """Return a line for each class that seems to fill up the lists of a task."""
    warnings = []
    for task, reader in readers.items():
        data, kind = config.tasks[task].data, reader.task_type
        train = splits[task].get("train")
        if train is None or not takes_sets(kind) or data.padding_label or data.label_vectors:
            continue
        rows = int((~kind.missing(train.rows.gold)).sum())
        counts = [*kind.label_counts(train.rows, reader).values()]
        for value, number in reader.ids.items():
            if counts[number] >= max(1, PADDED * rows) and _may_fill_up(value):
                warnings.append(
                    f"{task}: {counts[number]:,} of {rows:,} train rows have the class {value!r}: "
                    f"if it fills up lists of one length, set `data.padding_label: {value}`"
                )
    return warnings


def _may_fill_up(value: str) -> bool:
    """Return True for 0, a negative number, and "pad" in any spelling such as ``[PAD]``."""
    letters = "".join(filter(str.isalpha, value)).lower()
    return number_of(value) <= 0 or letters in ("pad", "padding")
