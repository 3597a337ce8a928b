"""Training times of groups of runs, beside their scores: comparable on one machine alone."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

# what must be the same in all runs; older reports lack some of it
MACHINE = ("device", "processes", "threads")


def training_times(
    groups: Sequence[Sequence[dict[str, Any]]], baseline: int
) -> list[dict[str, float | None] | None]:
    """``epoch_seconds`` of each group, and their ``ratio`` to those of the group ``baseline``.

    ``groups`` are the reports of each group's runs. Seconds are those of an epoch's training
    steps, evaluation and start-up apart, and the median over seeds. None where a run did not note
    them; None for all where ``several_machines`` has something to say.
    """
    if several_machines([report for group in groups for report in group]):
        return [None for _ in groups]
    seconds = [median_of([report.get("epoch_seconds") for report in group]) for group in groups]
    base = seconds[baseline]
    return [
        None if own is None else {"epoch_seconds": own, "ratio": own / base if base else None}
        for own in seconds
    ]


def several_machines(reports: Sequence[Mapping[str, Any]]) -> str | None:
    """What the runs' machines differ in, as a note for the reader; None for no difference."""
    found = {key: [report[key] for report in reports if report.get(key)] for key in MACHINE}
    differing = [
        f"{key} {', '.join(map(str, dict.fromkeys(values)))}"
        for key, values in found.items()
        if len(set(values)) > 1
    ]
    if not differing:
        return None
    return f"Training times do not compare, the runs differ in {'; '.join(differing)}."


def median_of(values: Sequence[float | None]) -> float | None:
    """The median; None where a value is missing."""
    known = [value for value in values if value is not None]
    return float(statistics.median(known)) if len(known) == len(values) else None
