"""The caveats of runs that are put side by side."""

from pathlib import Path

from multitask.reporting.comparison import notes as caveats
from tests.support.run_files import full_report

RUNS = [Path(f"runs/a-{number}") for number in range(5)]


def notes(runs):
    return caveats.notes([(run, full_report(**report)) for run, report in runs])


def reports(**changes):
    """Five runs of one commit and machine, whose weights a holdout selected."""
    entry = {"label_type": "class", "metric": "accuracy", "dev": {"accuracy": 0.5}}
    same = {"selection_split": "holdout", "git_revision": "abc", "tasks": {"sst": entry}}
    same |= {"device": "cpu", "threads": 2, "precision": "fp32", "kernels": "torch"}
    return [(run, {**same, **changes}) for run in RUNS]


def test_equal_runs_have_none():
    assert notes(reports()) == []


def test_selection_on_dev_names_up_to_three_runs_or_says_every():
    result = reports()
    result[0][1]["selection_split"] = "dev"
    (note,) = notes(result)
    assert "selected on the dev rows" in note and note.endswith(": runs/a-0.")
    for _, report in result[:4]:
        report["selection_split"] = "dev"
    (note,) = notes(result)
    assert note.endswith(": runs/a-0, runs/a-1, runs/a-2 and 1 more.")
    (note,) = notes(reports(selection_split="dev"))
    assert note.endswith(": every run.")


def test_several_commits_are_named():
    result = reports()
    result[1][1]["git_revision"] = None
    assert notes(result) == ["The runs come from several commits: abc, None."]


def test_probes_are_composed():
    result = reports()
    result[4][1]["probe"] = True
    (note,) = notes(result)
    assert note.startswith("Rows composed of probes: runs/a-4. Each task's projection and head")


def test_undefined_scores_are_named():
    result = reports()
    result[2][1]["tasks"] = {"sst": {"label_type": "class", "metric": "mcc", "dev": {"mcc": None}}}
    (note,) = notes(result)
    assert note == "sst has no score (constant or undefined predictions): runs/a-2."
