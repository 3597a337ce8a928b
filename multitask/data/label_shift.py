"""Warn if the labels of two splits cannot come from one distribution."""

from collections.abc import Mapping, Sequence

import numpy as np

from multitask.config import Config
from multitask.data.tokenize import Split
from multitask.tasks.label_reader import LabelReader

# Labels that only one split has are suspicious if a random split would give this with a probability
# below CHANCE,
CHANCE = 1e-4
# and if they are at least this share of the split: a few rare labels do not mean another scale.
SHARE = 0.1
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
        train = splits[host]["train"].rows.labels
        for name in ("dev", "test"):
            labels = splits[task][name].rows.labels if name in splits[task] else None
            if train is None or labels is None:
                continue
            problem = other_labels({"train": train, name: labels}, readers[task])
            if problem:
                warnings.append(f"{task}: {problem}")
    return warnings


def other_labels(pair: Mapping[str, np.ndarray], reader: LabelReader) -> str:
    """Describe labels that one of two splits lacks; "" if that may be chance."""
    if reader.names:
        return _other_classes(pair, reader)
    if reader.task_type.has_range:
        return _other_numbers(pair)
    return ""


def _other_classes(pair: Mapping[str, np.ndarray], reader: LabelReader) -> str:
    names = np.array(reader.names)
    counts = {
        split: np.array(reader.task_type.class_counts(labels, len(names)))
        for split, labels in pair.items()
    }
    for one, other in _both_ways(pair):
        alone = counts[one] * (counts[other] == 0)
        if _suspect(alone.sum(), counts[one].sum(), counts[other].sum()):
            listed = ", ".join(names[alone > 0][:SHOWN])
            more = ", ..." if (alone > 0).sum() > SHOWN else ""
            return (
                f"{alone.sum():,} of {counts[one].sum():,} labels in {one} are classes that "
                f"{other} does not have ({listed}{more}): do both files name them alike?"
            )
    return ""


def _other_numbers(pair: Mapping[str, np.ndarray]) -> str:
    ranges = {split: (numbers.min(), numbers.max()) for split, numbers in pair.items()}
    for one, other in _both_ways(pair):
        low, high = ranges[other]
        outside = int(((pair[one] < low) | (pair[one] > high)).sum())
        if _suspect(outside, len(pair[one]), len(pair[other])):
            shown = " and ".join(
                f"from {least:g} to {most:g} in {split}" for split, (least, most) in ranges.items()
            )
            return (
                f"the labels are {shown}: {outside:,} of {len(pair[one]):,} in {one} are outside "
                f"of those in {other}: are both on one scale?"
            )
    return ""


def _both_ways(pair: Mapping[str, np.ndarray]) -> Sequence[tuple[str, str]]:
    """Return both orders, dev first: labels that train lacks hurt the dev score most."""
    train, other = pair
    return ((other, train), (train, other))


def _suspect(alone: int, size: int, other_size: int) -> bool:
    """Return True if ``alone`` of ``size`` labels are only in one split, and this is not chance.

    If all labels were distributed to the two splits at random, all ``alone`` labels would be in
    this one with probability (size / (size + other_size)) ** alone.
    """
    return alone >= SHARE * size and (size / (size + other_size)) ** alone < CHANCE
