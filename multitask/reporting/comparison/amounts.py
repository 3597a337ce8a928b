"""How much a group of runs was trained: parameters, updates and rows."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from multitask.config.saved.report_model import RunReport

# two groups with more than this ratio of a count are not trained alike
ALIKE = 1.01
TRAINED = {"updates": "updates", "trained_rows": "trained rows"}
UNTRAINED = "only one was trained on the task"


def updates(reports: Sequence[RunReport]) -> int | None:
    """Return the optimizer steps of a run, the mean over seeds; None if a report lacks them."""
    done = [report.steps.done for report in reports]
    return None if 0 in done else round(statistics.fmean(done))


def trained_rows(config: Mapping[str, Any], reports: Sequence[RunReport]) -> int | None:
    """Return the rows of all steps of a run, the mean over seeds; None if a report lacks them.

    A step of a task has ``batch_size`` x ``accumulation`` rows of its ``config``, as ``check``
    prints. A row that several tasks train on counts for each of them.
    """
    counts = [
        sum(
            entry.turns.trained * rows_of_a_step(config["tasks"].get(task, {}))
            for task, entry in report.tasks.items()
        )
        for report in reports
    ]
    return None if 0 in counts else round(statistics.fmean(counts))


def rows_of_a_step(task: Mapping[str, Any]) -> int:
    """Return the rows of a task's optimizer step; 0 if the config does not say it."""
    return int(task.get("batch_size", 0)) * int(task.get("accumulation", 1))


def differ(counts: Sequence[int | None]) -> bool:
    """Return True if all counts are known and differ by more than a percent."""
    known = [count for count in counts if count is not None]
    return len(known) == len(counts) > 0 and max(known) > ALIKE * min(known)


def unlike(own: Mapping[str, Any], base: Mapping[str, Any], *, untrained: bool = False) -> str:
    """Say how the training of two groups differs, as ``33 % of the updates``; "" if it does not.

    ``untrained``: only one of them was trained on the task that is compared.
    """
    return ", ".join(filter(None, [_shares(own, base), UNTRAINED if untrained else ""]))


def _shares(own: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    names: dict[str, list[str]] = {}  # by the share
    for key, name in TRAINED.items():
        count, other = own.get(key), base.get(key)
        if count and other and differ([count, other]):
            names.setdefault(f"{100 * count / other:.0f} %", []).append(name)
    return ", ".join(f"{share} of the {' and '.join(of)}" for share, of in names.items())
