"""How our runs were trained is named, and a warning says where the paper's were not."""

import json
from pathlib import Path

import pytest

from multitask.config.saved.report_model import RunReport
from multitask.reporting.paper import paper_files
from multitask.reporting.paper.layout import Layout
from multitask.reporting.paper.our_setting import trained_rows
from multitask.reporting.paper.paper_table import paper_table
from tests.support.fabricated_run import write_run

LAYOUT = {
    "title": "T",
    "source": "BERT-base",
    "columns": [{"title": "SST", "task": "sst", "metric": "accuracy"}],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "base-1"
    write_run(run, rows=40, seed=1, only=("sst",))
    return run


def notes(run: Path, **paper: object) -> str:
    layout = Layout.model_validate({**LAYOUT, "paper": paper})
    table = paper_table(layout, {"base": [[run]]}, resamples=20)
    return paper_files.paper_markdown(table)


def test_encoder_rows_updates_and_seeds_of_ours_are_named(run):
    report = json.loads((run / "report.json").read_text())
    (line,) = [line for line in notes(run).splitlines() if line.startswith("- Our runs:")]
    rows = report["tasks"]["sst"]["data"]["train"]["rows"]
    assert f"training rows {rows:,}; " in line
    assert f"updates {report['steps']['done']:,}; seeds 1." in line


@pytest.mark.parametrize(
    ("paper", "said"),
    [
        ({}, None),
        ({"seeds": 1}, None),
        ({"seeds": 3}, "seeds 3"),
        ({"rows": 67}, "training rows 67"),
    ],
)
def test_a_warning_says_where_the_paper_has_another_setting(paper, said, run):
    warnings = [line for line in notes(run, **paper).splitlines() if "Warning" in line]
    wanted = f"- Warning: the paper has another setting than ours: {said}."
    assert warnings == ([wanted] if said else [])


def test_a_task_that_is_only_scored_has_the_rows_that_were_trained(run):
    report = RunReport.model_validate(json.loads((run / "report.json").read_text()))
    trained = report.tasks["sst"]
    rows = trained.data["train"].rows
    other = trained.model_copy(
        update={
            "turns": trained.turns.model_copy(update={"trained": 0}),
            "data": {"train": trained.data["train"].model_copy(update={"rows": 6040})},
        }
    )
    both = report.with_tasks({"sst": trained, "sts": other})
    assert trained_rows(both, "sts") == trained_rows(both, "sst") == rows != 6040
    assert trained_rows(report.with_tasks({"sts": other}), "sts") == 6040  # nothing was trained
