"""Warn of labels that may be misread: of splits with another distribution, and of padding."""

import math
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
DRAWS = 2_000  # random splits that are tried for classes
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
    """Describe labels that one of two splits lacks; "" if that may be chance."""
    if reader.names:
        return _other_classes(pair, reader)
    if reader.task_type.described_by == "label_range":
        return _other_numbers({split: rows.gold for split, rows in pair.items()})
    return ""


def _other_classes(pair: Mapping[str, Rows], reader: LabelReader) -> str:
    train, other = (
        np.array([*reader.task_type.label_counts(rows, reader).values()]) for rows in pair.values()
    )
    alone = dict(zip(pair, (train * (other == 0), other * (train == 0)), strict=True))
    sizes = dict(zip(pair, (train.sum(), other.sum()), strict=True))
    chance = _chance_of_classes(train, other)
    split = _suspicious(alone, sizes, chance, nothing_shared=not (train * other).any())
    if not split:
        return ""
    lacking = np.array(reader.names)[alone[split] > 0]
    listed = ", ".join(lacking[:SHOWN]) + ", ..." * (len(lacking) > SHOWN)
    (lacks,) = pair.keys() - {split}
    return (
        f"{alone[split].sum():,} of {sizes[split]:,} labels in {split} are classes that {lacks} "
        f"does not have ({listed}): do both files name them alike?"
    )


def _other_numbers(pair: Mapping[str, np.ndarray]) -> str:
    train, other = pair.values()
    alone = {
        split: (numbers < others.min()) | (numbers > others.max())
        for split, numbers, others in zip(pair, (train, other), (other, train), strict=True)
    }
    sizes = {split: len(numbers) for split, numbers in pair.items()}
    # the chance that a random split puts the marked rows of both splits where they are
    every, marked = len(train) + len(other), alone["train"].sum()
    common = every - sum(map(np.sum, alone.values()))
    log = _log_ways(common, len(train) - marked) - _log_ways(every, len(train))
    chance = math.exp(log) * (1 - log)  # two such events, one at each end of the scale
    split = _suspicious(alone, sizes, chance, nothing_shared=all(map(np.all, alone.values())))
    if not split:
        return ""
    (lacks,) = pair.keys() - {split}
    shown = " and ".join(f"from {n.min():g} to {n.max():g} in {name}" for name, n in pair.items())
    return (
        f"the labels are {shown}: {alone[split].sum():,} of {sizes[split]:,} in {split} are "
        f"outside of those in {lacks}: are both on one scale?"
    )


def _suspicious(
    alone: dict[str, np.ndarray],
    sizes: Mapping[str, int],
    chance: float,
    *,
    nothing_shared: bool,
) -> str:
    """Return a split with many labels that only it has; "" if there is none, or by ``chance``.

    Dev is before train: labels that train lacks hurt the dev score most.

    Args:
        alone: True, or a count, for the labels that only this split has.
        sizes: the number of labels in each split.
        chance: the probability that random splits differ as much.
        nothing_shared: the splits have no label in common.
    """
    if chance >= (DISJOINT if nothing_shared else CHANCE):
        return ""
    return next((s for s in reversed(alone) if alone[s].sum() / sizes[s] >= SHARE), "")


def _chance_of_classes(counts: np.ndarray, others: np.ndarray) -> float:
    """Return the share of random splits whose classes differ as much, given counts by class."""

    def difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Add up, over both splits, the share of labels that only this split has."""
        alone = (first * (second == 0)).sum(-1) / max(1, counts.sum())
        rest: np.ndarray = alone + (second * (first == 0)).sum(-1) / max(1, others.sum())
        return rest

    every = counts + others
    drawn = np.random.default_rng(0).multivariate_hypergeometric(every, counts.sum(), DRAWS)
    return float((difference(drawn, every - drawn) >= difference(counts, others) - 1e-9).mean())


def _log_ways(size: int, chosen: int) -> float:
    """Return the logarithm of the number of ways to choose so many."""
    return math.lgamma(size + 1) - math.lgamma(chosen + 1) - math.lgamma(size - chosen + 1)


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
            # 0, a negative number, and "pad" in any spelling such as `[PAD]`
            letters = "".join(filter(str.isalpha, value)).lower()
            fills_up = number_of(value) <= 0 or letters in ("pad", "padding")
            if fills_up and counts[number] >= max(1, PADDED * rows):
                warnings.append(
                    f"{task}: {counts[number]:,} of {rows:,} train rows have the class {value!r}: "
                    f"if it fills up lists of one length, set `data.padding_label: {value}`"
                )
    return warnings
