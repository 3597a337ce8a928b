"""What a run has written: its log and its report."""

import json
from pathlib import Path


def events(directory: Path | str, kind: str | None = None) -> list[dict]:
    """The lines of a run's log; with ``kind``, those of this event only."""
    lines = map(json.loads, (Path(directory) / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if kind in (None, line["event"])]


def report_of(directory: Path | str) -> dict:
    """A run's report.json."""
    return json.loads((Path(directory) / "report.json").read_text())


def results(directory: Path | str) -> dict:
    """The part of a report that is the same whenever the same training is repeated."""
    report = report_of(directory)
    return {key: report[key] for key in ("overall", "tasks", "steps")}
