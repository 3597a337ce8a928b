"""Caveats that a reader must know before comparing finished runs."""

from collections.abc import Sequence
from pathlib import Path

from multitask.config.saved.report_model import RunReport
from multitask.reporting.comparison.times import several_machines


def notes(runs: Sequence[tuple[Path, RunReport]]) -> list[str]:
    """List the caveats, one line each; ``runs`` are directories with their report.json."""
    return [*run_notes(runs), *score_notes(runs)]


def run_notes(runs: Sequence[tuple[Path, RunReport]]) -> list[str]:
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
    selected = [run for run, report in runs if report.selection_split == "dev"]
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


def score_notes(runs: Sequence[tuple[Path, RunReport]]) -> list[str]:
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
