"""Warn where the labels of two splits cannot come from one distribution."""

from collections.abc import Mapping, Sequence

import numpy as np

from multitask.config import Config
from multitask.data.tokenize import Split
from multitask.tasks.label_reader import LabelReader

# A split is suspect if chance would leave the other one without such labels less often than this,
CHANCE = 1e-4
# and if the labels are at least this share of the split: a few rare ones are no other scale.
SHARE = 0.1
SHOWN = 5  # classes that a warning names


def label_warnings(
    config: Config,
    splits: Mapping[str, Mapping[str, Split]],
    readers: Mapping[str, LabelReader],
) -> list[str]:
    """Compare dev and test of each task with its training rows; return a line where they differ.

    The rows of a task that is only scored are compared with those that its head trains on.
    """
    found = []
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
                found.append(f"{task}: {problem}")
    return found


def other_labels(pair: Mapping[str, np.ndarray], reader: LabelReader) -> str:
    """Say what one of two splits has and the other lacks, if that is no chance; "" if it may be."""
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
    """Dev against train first: what no training row has is what dev scores are worst in."""
    train, other = pair
    return ((other, train), (train, other))


def _suspect(alone: int, size: int, other_size: int) -> bool:
    """Return True if ``alone`` of ``size`` labels occur in one split, and chance is no reason.

    If all labels were dealt to the two splits at random, all of these would be dealt to one with a
    probability of (size / (size + other_size)) ** alone.
    """
    return alone >= SHARE * size and (size / (size + other_size)) ** alone < CHANCE
