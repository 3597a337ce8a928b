"""Caveats about the runs of a sheet, and how a paper's setting differs from theirs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from multitask.reporting.sheet import Sheet, facts
from multitask.store.saved import RunReport

# keys of report.json that must be equal in all runs; older reports lack some
MACHINE = ("device", "processes", "threads")
Runs = Sequence[tuple[Path, RunReport]]


def notes(runs: Runs) -> list[str]:
    """List the caveats, one line each; ``runs`` are directories with their report.json."""
    return [*run_notes(runs), *score_notes(runs)]


def run_notes(runs: Runs) -> list[str]:
    """List the caveats about how the runs were trained."""
    notes = []
    probes = [run for run, report in runs if report.probe]
    if probes:
        notes.append(
            f"Rows composed of probes: {_listed(probes, len(runs))}. Each task's projection and "
            "head, and a pooling that has parameters, were trained alone on the frozen encoder. "
            "Rows with the same setting of a task have the same score for it, and the table says "
            "nothing about training tasks together."
        )
    if any(report.trial for _, report in runs):
        notes.append("Trials (`--try`): few rows of train and dev, so these scores are no results.")
    selected = [run for run, report in runs if report.dev_selected]
    if selected:
        notes.append(
            "Weights were selected on the dev rows that are compared here, which flatters scores "
            f"(`training.holdout` avoids it): {_listed(selected, len(runs))}."
        )
    revisions = list(dict.fromkeys(str(report.git_revision) for _, report in runs))
    if len(revisions) > 1:
        notes.append(f"The runs come from several commits: {', '.join(revisions)}.")
    if machines := several_machines([report for _, report in runs]):
        notes.append(machines)
    return notes


def several_machines(reports: Sequence[RunReport]) -> str | None:
    """Tell in a note how the machines of the runs differ; None if they do not."""
    recorded = {
        key: list(dict.fromkeys(value for report in reports if (value := getattr(report, key))))
        for key in MACHINE
    }
    differing = [
        f"{key} {', '.join(map(str, values))}" for key, values in recorded.items() if values[1:]
    ]
    if not differing:
        return None
    return f"Training times do not compare, the runs differ in {'; '.join(differing)}."


def score_notes(runs: Runs) -> list[str]:
    """List the tasks whose metric is undefined."""
    notes = []
    for task in dict.fromkeys(task for _, report in runs for task in report.tasks):
        entries = [(run, report.tasks.get(task)) for run, report in runs]
        undefined = [run for run, entry in entries if entry and entry.score is None]
        if undefined:
            words = f"{task} has no score (constant or undefined predictions)"
            notes.append(f"{words}: {_listed(undefined, len(runs))}.")
    return notes


def _listed(runs: list[Path], total: int) -> str:
    """Name up to three runs."""
    if len(runs) == total > 1:
        return "every run"
    more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
    return ", ".join(map(str, runs[:3])) + more


# what is named of our runs
SETTING = {
    "encoder": "encoder",
    "train_rows": "training rows",
    "epochs": "epochs",
    "updates": "updates",
    "seeds": "seeds",
}


def setting_notes(sheet: Sheet) -> list[str]:
    """Name encoder, rows, epochs, updates and seeds of ours; warn where the paper has others."""
    cells: list[Any] = [
        facts(row, name) for row in sheet["rows"] for name, c in row["cells"].items() if c["values"]
    ]
    named, others = [], []
    for key, title in SETTING.items():
        values = [len(each["values"]) if key == "seeds" else each.get(key) for each in cells]
        known = [value for value in dict.fromkeys(values) if value is not None]
        if known:
            named.append(f"{title} {_listed_values(known)}")
        want = (sheet["paper"] or {}).get("rows" if key == "train_rows" else key)
        if want == "all":  # that is, nothing takes some away
            differs = not all(each.get("all_rows", True) for each in cells)
        else:
            differs = want is not None and bool({*known} - {want})
        others += [f"{title} {_number(want)}"] if differs else []
    notes = [f"Our runs: {'; '.join(named)}."] if named else []
    if others:
        notes.append(f"Warning: the paper has another setting than ours: {'; '.join(others)}.")
    return notes


def _listed_values(values: Sequence[Any]) -> str:
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) > 2:
        return f"{_number(min(numbers))} to {_number(max(numbers))}"
    return " or ".join(map(_number, values))


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
