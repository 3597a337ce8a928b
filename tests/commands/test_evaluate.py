"""`evaluate`: the scores of a finished run on dev or test."""

import json

import pytest

import multitask
from tests.support.commands import main
from tests.support.messages import complaint
from tests.support.run_files import report_of


def test_evaluate_repeats_the_report(course_run, capsys):
    assert main("evaluate", course_run) == 0
    assert "sst      accuracy" in capsys.readouterr().out
    report = report_of(course_run)
    again = json.loads((course_run / "evaluation-dev.json").read_text())
    for task, entry in report["tasks"].items():
        assert again[task]["metrics"] == entry["dev"]
        assert again[task]["intervals"] == entry["dev_intervals"]


def test_evaluate_on_an_unlabelled_test_split_says_so(course_run, capsys):
    assert main("evaluate", course_run, "--split", "test") == 2
    captured = capsys.readouterr()
    assert "has no labels" in captured.err and "no task has a labelled test" in captured.err


def test_evaluate_where_the_data_are_gone(tiny_run, capsys, tmp_path):
    line = complaint(capsys, "evaluate", tiny_run, f"data_dir={tmp_path}")
    assert f"no such file: {tmp_path / 'ids-sst-dev.csv'} (is `data_dir` right?)" in line


def test_evaluate_one_task(course_run, capsys):
    assert main("evaluate", course_run, "--task", "sst") == 0
    assert set(json.loads((course_run / "evaluation-dev.json").read_text())) == {"sst"}
    assert "no task 'sst2'" in complaint(capsys, "evaluate", course_run, "--task", "sst2")


def test_python_gets_what_the_file_holds(course_run, capsys):
    for options, split in (({}, "dev"), ({"task": "sst"}, "dev")):
        results = multitask.evaluate(str(course_run), **options)
        assert results == json.loads((course_run / f"evaluation-{split}.json").read_text())
    assert not capsys.readouterr().out
    with pytest.raises(multitask.UserError, match="no task has a labelled test split"):
        multitask.evaluate(course_run, split="test")
