"""Damaged run directories, and outputs that would replace a run's files: exit code 2, one line.

Foreign runs: test_foreign_runs.py. Damaged checkpoints and a full disk: tests/training.
"""

import re
import shutil
from pathlib import Path

import pytest

from multitask.reporting.run_report import write_reports
from multitask.store.run_directory import RunDirectory
from multitask.utils.errors import UserError
from tests.support.messages import complaint


@pytest.mark.parametrize("command", ["evaluate", "predict", "serve"])
@pytest.mark.parametrize("place", ["nowhere", ".", "configs/demo.yaml"])
def test_directory_without_a_run(command, place, capsys):
    assert complaint(capsys, command, place) == f"{place}: no run there (config.yaml is missing)"


def test_run_that_was_never_evaluated(capsys, tmp_path):
    (tmp_path / "config.yaml").write_text("tasks: {}\n")
    line = complaint(capsys, "evaluate", tmp_path)
    assert line == f"{tmp_path}: the run has no evaluated weights yet: go on with --resume"


@pytest.fixture
def run_copy(tiny_run, tmp_path) -> Path:
    return shutil.copytree(tiny_run, tmp_path / "copy")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("encoder/tokenizer.json", None, "cannot rebuild the encoder: ValueError: "),
        ("encoder/tokenizer.json", "{}", "cannot rebuild the encoder: KeyError: "),
        ("encoder/config.json", '{"num_attention_heads": "x"}', "encoder/config.json: "),
        ("best.json", '{"foo": 2}', "best.json: damaged: "),
    ],
)
def test_a_damaged_run_is_not_scored(file, text, message, run_copy, capsys):
    (run_copy / "encoder" / "SHA256SUMS").unlink()  # so that the damage itself is found
    if text is None:
        (run_copy / file).unlink()
    else:
        (run_copy / file).write_text(text)
    assert message in complaint(capsys, "evaluate", run_copy)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("report.json", '{"tasks": {}}', "report.json: damaged: "),
        ("metrics.jsonl", "[]\n", "metrics.jsonl: damaged: restore it"),
        ("metrics.jsonl", "{}\n", "metrics.jsonl: damaged: restore it"),
        ("metrics.jsonl", '{"event": "eval", "split": "dev", "step": 1, "tasks": null}\n',
         "metrics.jsonl: damaged: restore it"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_not_compared(file, text, message, run_copy, capsys, tmp_path):
    (run_copy / file).write_text(text)
    assert message in complaint(capsys, "report", run_copy, "--output", tmp_path / "out")


@pytest.mark.parametrize("text", ["{", "[]\n", "{}\n", "[" * 100_000, '{"label": 1}\n', "\udcff"])
def test_damaged_predictions_are_one_line_wherever_they_are_read(text, run_copy, capsys, tmp_path):
    file = run_copy / "predictions" / "sst.dev.jsonl"
    file.write_text(text, errors="surrogateescape")
    (run_copy / "checksums").unlink()  # so that the damage itself is found
    exported = ("--task", "sst", "--format", "transformers")
    line = complaint(capsys, "export", run_copy, tmp_path / "out", *exported)
    assert line.startswith(f"{file}: ")
    with pytest.raises(UserError, match=re.escape(str(file))):
        write_reports(RunDirectory(run_copy))


def test_best_steps_without_a_task(run_copy, capsys):
    (run_copy / "best.json").write_text('{"joint": 2}')
    (run_copy / "checksums").unlink()
    line = complaint(capsys, "evaluate", run_copy, "training.select=per_task")
    assert line.startswith(f"{run_copy}/best.json: cannot be read: KeyError")


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "RUN", "--output", "RUN"],
        ["table", "configs/glue/table.yaml", "RUN", "--output", "RUN"],
        ["attention", "RUN", "--text", "a film", "--output", "RUN/report.json"],
        ["attention", "RUN", "--text", "a film", "--output", "RUN/best"],
        ["predict", "RUN", "--task", "sst", "--file", "TEXTS", "--output",
         "RUN/predictions/sst.dev.jsonl"],
    ],
)  # fmt: skip
def test_no_output_replaces_a_file_of_a_run(arguments, tiny_run, capsys, tmp_path):
    (tmp_path / "texts.txt").write_text("a good film\n")
    before = {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")}
    named = {"RUN": tiny_run, "TEXTS": tmp_path / "texts.txt"}
    for short, path in named.items():
        arguments = [word.replace(short, str(path)) for word in arguments]
    assert "choose another --output" in complaint(capsys, *arguments)
    assert {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")} == before


def test_a_place_that_is_a_file(tiny_run, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    arguments = ["attention", tiny_run, "--text", "a film", "--output", tmp_path / "file" / "x"]
    assert "a file" in complaint(capsys, *arguments)
    assert (tmp_path / "file").read_text() == ""
