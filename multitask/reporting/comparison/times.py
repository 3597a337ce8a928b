"""Training times of groups of runs; they are comparable only if one machine ran all of them."""

import statistics
from collections.abc import Sequence

from multitask.config.saved.report_model import RunReport
from multitask.reporting.comparison.comparison_json import TrainingTime

# keys of report.json that must be equal in all runs; older reports lack some
MACHINE = ("device", "processes", "threads")


def training_times(
    groups: Sequence[Sequence[RunReport]], baseline: int
) -> list[TrainingTime | None]:
    """Return each group's ``epoch_seconds`` and their ``ratio`` to the group ``baseline``.

    ``groups`` are the reports of each group's runs. Seconds are the median over seeds of the
    training steps of an epoch, without evaluation and start-up. A group is None if a run did not
    record them; all are None if the runs are from several machines.
    """
    if several_machines([report for group in groups for report in group]):
        return [None for _ in groups]
    seconds = [median_of([report.epoch_seconds for report in group]) for group in groups]
    base = seconds[baseline]
    return [
        None if each is None else {"epoch_seconds": each, "ratio": each / base if base else None}
        for each in seconds
    ]


def several_machines(reports: Sequence[RunReport]) -> str | None:
    """Tell in a note how the machines of the runs differ; None if they do not."""
    values = {key: [getattr(report, key) for report in reports] for key in MACHINE}
    recorded = {key: [value for value in of_key if value] for key, of_key in values.items()}
    differing = [
        f"{key} {', '.join(map(str, dict.fromkeys(values)))}"
        for key, values in recorded.items()
        if len(set(values)) > 1
    ]
    if not differing:
        return None
    return f"Training times do not compare, the runs differ in {'; '.join(differing)}."


def median_of(values: Sequence[float | None]) -> float | None:
    """Return the median; None if a value is missing."""
    present = [value for value in values if value is not None]
    return float(statistics.median(present)) if len(present) == len(values) else None
