"""Notes about runs: caveats, times, and how the runs of a paper's table were trained."""

import csv
import statistics
from pathlib import Path

import pytest

from multitask.reporting import notes as caveats
from multitask.reporting import sheet_tables
from multitask.reporting.compare import compare
from multitask.reporting.layout import Layout
from multitask.reporting.paper_table import paper_table
from multitask.reporting.read_runs import Group
from multitask.reporting.write_sheet import write_sheet
from tests.support.fabricated_run import edited, write_run
from tests.support.run_files import full_report, report_of

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


ENTRY = {"label_type": "class", "metric": "mcc", "dev": {"mcc": None}}


@pytest.mark.parametrize(
    ("place", "change", "said"),
    [
        (1, {"git_revision": None}, "The runs come from several commits: abc, None."),
        (4, {"probe": True}, "Rows composed of probes: runs/a-4. "),
        (2, {"tasks": {"sst": ENTRY}}, "sst has no score (constant or undefined predictions): "),
    ],
)
def test_one_run_that_differs_is_named(place, change, said):
    result = reports()
    result[place][1].update(change)
    (note,) = notes(result)
    assert note.startswith(said) and ("commits" in said or str(RUNS[place]) in note)


SECONDS = {"base": (8.0, 10.0, 30.0), "slow": (24.0, 26.0, 25.0), "probe": (None, None, None)}
MACHINE = {"device": "cpu", "processes": 1, "threads": 2}


@pytest.fixture
def groups(tmp_path):
    result = []
    for number, (name, times) in enumerate(SECONDS.items()):
        runs = [tmp_path / f"{name}-{seed}" for seed in range(1, 4)]
        for seed, (run, seconds) in enumerate(zip(runs, times, strict=True), 1):
            write_run(run, rows=60, seed=seed, noise=0.1 * number, lr=number)
            edited(run, lambda r, seconds=seconds: r.update(MACHINE, epoch_seconds=seconds))
        result.append(Group(name, runs))
    return result


def test_times_are_medians_and_their_ratios_in_every_format(groups, tmp_path):
    comparison = compare(groups, "base", resamples=20)
    medians = [statistics.median(SECONDS[name]) for name in ("base", "slow")]
    assert [row["epoch_seconds"] for row in comparison["rows"]] == [*medians, None]
    (table,) = sheet_tables.training_tables(comparison).values()
    assert table.rows == [["base", "10.00"], ["slow", "25.00 (x2.50)"], ["probe", "-"]]
    write_sheet(tmp_path / "out", comparison)
    for name, row in (("md", "| slow | 25.00 (x2.50) |"), ("tex", r"slow & 25.00 (x2.50) \tab")):
        text = (tmp_path / "out" / f"table.{name}").read_text()
        assert row in text and "the load of the machine was not controlled" in text
    lines = list(csv.DictReader((tmp_path / "out" / "table.csv").read_text().splitlines()))
    times = {line["row"]: line["epoch_seconds"] for line in lines}
    assert times == {"base": "10.0", "slow": "25.0", "probe": ""}


@pytest.mark.parametrize(
    ("change", "words"),
    [({"threads": 1}, "threads 2, 1"), ({"device": "cuda", "processes": 2}, "device cpu, cuda")],
)
def test_times_of_several_machines_are_left_out_with_a_note(change, words, groups):
    edited(groups[1].runs[2], lambda report: report.update(change))
    comparison = compare(groups, "base", resamples=20)
    assert [row["epoch_seconds"] for row in comparison["rows"]] == [None] * 3
    assert not sheet_tables.training_tables(comparison)
    (note,) = comparison["notes"]
    assert note.startswith(f"Training times do not compare, the runs differ in {words}")


def test_a_report_older_than_the_count_of_threads_is_no_other_machine(groups):
    for run in groups[0].runs:
        edited(run, lambda report: report.update(threads=None))
    comparison = compare(groups, "base", resamples=20)
    assert sheet_tables.training_tables(comparison) and not comparison["notes"]


def test_without_times_there_is_no_table(groups):
    edited(groups[0].runs[0], lambda report: report.update(epoch_seconds=None))
    comparison = compare(groups, "base", resamples=20)
    assert comparison["rows"][0]["epoch_seconds"] is None
    assert not sheet_tables.training_tables(comparison)


LAYOUT = {
    "title": "T",
    "source": "BERT-base",
    "columns": [{"title": "SST", "task": "sst", "metric": "accuracy"}],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "base-1"
    config = {"encoder": {"name": "packaged-minilm"}, "training": {"epochs": 4}}
    write_run(run, rows=40, seed=1, only=("sst",), **config)
    return run


def notes_of(run: Path, **paper: object) -> str:
    layout = Layout.model_validate({**LAYOUT, "paper": paper})
    table = paper_table(layout, {"base": [[run]]}, resamples=20)
    return sheet_tables.markdown_text(table)


def test_encoder_rows_updates_and_seeds_of_ours_are_named(run):
    report = report_of(run)
    (line,) = [line for line in notes_of(run).splitlines() if line.startswith("- Our runs:")]
    rows = report["tasks"]["sst"]["data"]["train"]["rows"]
    assert f"encoder packaged-minilm; training rows {rows:,}; epochs 4; " in line
    assert f"updates {report['steps']['done']:,}; seeds 1." in line


@pytest.mark.parametrize(
    ("paper", "said"),
    [
        ({}, None),
        ({"seeds": 1}, None),
        ({"seeds": 3}, "seeds 3"),
        ({"rows": 67}, "training rows 67"),
        ({"rows": "all"}, None),
        ({"encoder": "packaged-minilm", "epochs": 4}, None),
        ({"encoder": "bert-base-uncased"}, "encoder bert-base-uncased"),
        ({"epochs": 10}, "epochs 10"),
        ({"encoder": "bert-base-uncased", "epochs": 10}, "encoder bert-base-uncased; epochs 10"),
    ],
)
def test_a_warning_says_where_the_paper_has_another_setting(paper, said, run):
    warnings = [line for line in notes_of(run, **paper).splitlines() if "Warning" in line]
    wanted = f"- Warning: the paper has another setting than ours: {said}."
    assert warnings == ([wanted] if said else [])


def table_of(folder: Path, encoders: list[str]) -> str:
    """Write a run per encoder, each a row; return the line on our setting."""
    runs = {}
    for encoder in encoders:
        run, config = folder / f"{encoder}-1", {"encoder": {"name": encoder}}
        write_run(run, rows=40, seed=1, only=("sst",), training={"epochs": 4}, **config)
        runs[encoder] = [[run]]
    layout = Layout.model_validate(LAYOUT)
    page = sheet_tables.markdown_text(paper_table(layout, runs, resamples=20))
    (line,) = [line for line in page.splitlines() if line.startswith("- Our runs:")]
    return line


@pytest.mark.parametrize(
    ("encoders", "said"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a or b or c")]
)
def test_encoders_are_listed(encoders, said, tmp_path):
    assert table_of(tmp_path, encoders).startswith(f"- Our runs: encoder {said}; ")
