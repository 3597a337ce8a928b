"""Read the log and the report of a run."""

import json
from collections.abc import Iterable
from pathlib import Path

from multitask.store.saved import RunReport, TaskReport


def events(directory: Path | str, kind: str | None = None) -> list[dict]:
    """The lines of a run's log; with ``kind``, those of this event only."""
    lines = map(json.loads, (Path(directory) / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if kind in (None, line["event"])]


def report_of(directory: Path | str) -> dict:
    """A run's report.json."""
    return json.loads((Path(directory) / "report.json").read_text())


def full_report(**keys: object) -> RunReport:
    """A report with these keys, and with the smallest values of the others that it needs."""
    return RunReport.model_validate({"seed": 1, "selection_split": "dev", "tasks": {}, **keys})


def task_entry(label_type: str, classes: Iterable[str] | None = None, **keys: object) -> TaskReport:
    """A task's entry of a report."""
    names = None if classes is None else list(classes)
    needed = {"label_type": label_type, "classes": names, "metric": "accuracy", "dev": {}}
    return TaskReport.model_validate(needed | keys)


def results(directory: Path | str) -> dict:
    """The part of a report that is the same whenever the same training is repeated."""
    report = report_of(directory)
    return {key: report[key] for key in ("overall", "tasks", "steps")}
