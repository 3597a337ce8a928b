"""`--try` from start to end: few rows, two evaluations, pages that say so, the same dev rows."""

import json

import pytest

from multitask.config import load_config
from multitask.store.run_directory import RunDirectory, load_lines
from tests.conftest import ROOT, write_course_files
from tests.support.commands import main
from tests.support.messages import complaint
from tests.support.run_files import events, report_of


@pytest.fixture(scope="module")
def trial(tiny_encoder, tmp_path_factory):
    """A trial on files with more rows than it takes."""
    root = tmp_path_factory.mktemp("trial")
    (root / "data").mkdir()
    write_course_files(root / "data", train=330, dev=210)
    words = [f"data_dir={root / 'data'}", f"encoder.name={tiny_encoder}"]
    words += [f"output_dir={root / 'run'}", "defaults.max_length=48", "training.holdout=0.7"]
    words += ["defaults.batch_size=64"]
    assert main(ROOT / "configs/cs224n.yaml", "--try", *words) == 0
    return root / "run"


def test_rows_are_a_sample_and_evaluations_are_two(trial):
    report = report_of(trial)
    for entry in report["tasks"].values():
        rows = {split: data["rows"] for split, data in entry["data"].items()}
        assert rows["dev"] == 200 and rows["test"] == 6
        assert rows["train"] < 110 and rows["holdout"] == 200  # of 231
    steps = [event["step"] for event in events(trial, "eval")]
    planned = report["steps"]["planned"]
    assert steps == [-(-planned // 2), planned]
    assert load_config(trial / "config.yaml").training.epochs == 4


def test_the_pages_say_trial(trial):
    assert report_of(trial)["trial"] is True
    for name in ("report.md", "report.html", "README.md"):
        assert "trial (--try)" in (trial / name).read_text()
    assert (trial / "report.md").read_text().startswith("# Trial: run")


def test_evaluate_takes_the_same_dev_rows(trial, capsys):
    assert main("evaluate", trial) == 0
    evaluated = json.loads(RunDirectory(trial).evaluation("dev").read_text())
    tasks = report_of(trial)["tasks"]
    for task, entry in evaluated.items():
        assert entry["metrics"]["rows"] == 200
        assert entry["metrics"]["loss"] == pytest.approx(tasks[task]["dev"]["loss"], abs=1e-5)


def test_predict_finds_the_files_of_the_trial_intact(trial, capsys):
    before = load_lines(trial / "predictions" / "sst.dev.jsonl")
    assert len(before) == 200
    assert main("predict", trial) == 0
    assert load_lines(trial / "predictions" / "sst.dev.jsonl") == before


def test_a_trial_is_not_compared_with_a_run(trial, tiny_run, capsys):
    line = complaint(capsys, "report", tiny_run, trial)
    assert "is a trial (--try)" in line
    assert main("report", trial) == 0
