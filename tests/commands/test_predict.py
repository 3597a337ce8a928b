"""`predict`: the files of a run's splits, and texts of a file. Ensembles: test_ensemble.py."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from multitask import load
from multitask.store.run_directory import load_lines
from tests.support.commands import main
from tests.support.messages import complaint

TASKS = ("sst", "qqp", "sts")


def test_predict_texts_of_the_user(course_run, tmp_path, capsys):
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("the cat runs .\tthe dog runs .\na man\ta woman\n")
    assert main("predict", course_run, "--task", "sts", "--file", pairs) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["texts"][0] for record in printed] == ["the cat runs .", "a man"]
    table = tmp_path / "own.jsonl"
    table.write_text('{"sentence": "a good film", "id": "x"}\n')
    output = tmp_path / "found.jsonl"
    assert main("predict", course_run, "--task", "sst", "--file", table, "--output", output) == 0
    (record,) = load_lines(output)
    names = load(course_run).readers["sst"].names
    assert record["name"] == names[record["prediction"]]
    assert record["prediction"] == int(np.argmax(record["scores"]))
    assert (record["id"], record["texts"]) == ("x", ["a good film"])
    # predictions may be written anew; nothing else is overwritten
    assert main("predict", course_run, "--task", "sst", "--file", table, "--output", output) == 0
    before = table.read_text()
    for place in (table, tmp_path):
        assert main("predict", course_run, "--task", "sst", "--file", table, "--output", place) == 2
        assert f"{place} exists and holds no predictions" in capsys.readouterr().err
    assert table.read_text() == before


def test_texts_of_the_user_need_no_ids(course_run, tmp_path, capsys):
    table = tmp_path / "own.jsonl"
    table.write_text('{"sentence": "a good film"}\n{"sentence": "a bad film"}\n')
    assert main("predict", course_run, "--task", "sst", "--file", table) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["id"] for record in printed] == ["0", "1"]


def test_only_missing_and_damaged_files_are_made(course_run, tmp_path, capsys):
    run = shutil.copytree(course_run, tmp_path / "run")
    before = {file: file.read_bytes() for file in (run / "predictions").rglob("*.*")}
    assert len(before) == 15
    assert main("predict", run) == 0
    printed = capsys.readouterr().out
    assert "written" not in printed and printed.count("intact: ") >= 6
    changed, missing = (run / "predictions" / f"{n}-dev-output.csv" for n in ("sst", "para"))
    changed.write_text("damaged")
    missing.unlink()
    assert main("predict", run) == 0
    printed = capsys.readouterr().out
    assert f"written: {changed}" in printed and f"written: {missing}" in printed
    assert "intact: " in printed
    for _ in range(2):
        assert {file: file.read_bytes() for file in before} == before
        assert main("predict", run, "--again") == 0


def test_a_text_on_the_command_line(course_run, capsys):
    assert main("predict", course_run, "--task", "sst", "--text", "a good film") == 0
    (record,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert record["texts"] == ["a good film"] and "prediction" in record
    for pair in (["--text", "a man", "a woman"], ["--text", "a man", "--text", "a woman"]):
        assert main("predict", course_run, "--task", "sts", *pair) == 0
        (record,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert record["texts"] == ["a man", "a woman"]


@pytest.mark.parametrize(
    ("texts", "tasks"), [(["a good film"], ["sst"]), (["a man", "a woman"], ["qqp", "sts"])]
)
def test_all_tasks_that_take_such_a_text_answer(course_run, capsys, monkeypatch, texts, tasks):
    assert main("predict", course_run, "--text", *texts) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for task, record in zip(tasks, printed, strict=True):
        assert record.pop("task", task) == task
        assert main("predict", course_run, "--task", task, "--text", *texts) == 0
        assert json.loads(capsys.readouterr().out) == record
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main("predict", course_run, "--text", *texts) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in shown] == tasks or len(tasks) == 1


def test_several_runs_answer_for_all_their_tasks(course_run, tmp_path, capsys):
    other = shutil.copytree(course_run, tmp_path / "other")
    assert main("predict", course_run, other, "--text", "a man", "a woman") == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["task"] for record in printed] == ["qqp", "sts"]


def test_a_text_that_no_task_takes_names_what_they_take(course_run, capsys):
    error = complaint(capsys, "predict", course_run, "--text", "a", "b", "c")
    assert all(f"{task} (" in error for task in TASKS)


def test_a_terminal_shows_a_line_for_a_reader(course_run, capsys, monkeypatch):
    given = {"sst": ["a good film"], "sts": ["a man", "a woman " * 20]}
    for task, texts in given.items():
        words = ("predict", course_run, "--task", task, "--text", *texts)
        assert main(*words) == 0
        saved = json.loads(capsys.readouterr().out)
        with monkeypatch.context() as terminal:
            terminal.setattr("sys.stdout.isatty", lambda: True)
            assert main(*words) == 0
        shown = capsys.readouterr().out
        if task == "sst":
            chance = max(saved["scores"])
            assert shown == f"{saved['name']} ({chance:.2f}): a good film\n"
        else:
            assert shown.startswith(f"{saved['prediction']:.3f}: a man | a woman a")
            assert shown.endswith("...\n") and len(shown) < 80


@pytest.fixture
def run_and_data(course_run, course_files, tmp_path):
    """A copy of a run, and of its data, which the run's config names."""
    data = Path(shutil.copytree(course_files, tmp_path / "data"))
    run = Path(shutil.copytree(course_run, tmp_path / "run"))
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace(str(course_files), str(data)))
    return run, data


def test_the_archive_has_the_files_in_their_folders(run_and_data, tmp_path, capsys):
    run, _ = run_and_data
    (run / "predictions" / "sts-dev-output.csv").unlink()
    file, folder = tmp_path / "hand-in.zip", "tasks.sst.course_file.folder=bert/multitask"
    assert main("predict", run, "--zip", file) == 0
    assert main("predict", run, folder, "--zip", file) == 0  # an archive may be replaced
    assert f"written: {file}" in capsys.readouterr().out
    with zipfile.ZipFile(file) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    files = sorted((run / "predictions").glob("*-output.csv"))
    assert len(packed) == len(files) == 6
    for made in files:
        folder = "bert/multitask/" if made.name.startswith("sst-") else ""
        assert packed[f"predictions/{folder}{made.name}"] == made.read_bytes()


@pytest.mark.parametrize(
    ("split", "name"), [("dev", "ids-sst-dev.csv"), ("test", "ids-sst-test-student.csv")]
)
def test_an_archive_with_missing_repeated_or_unknown_ids_is_refused(
    split, name, run_and_data, tmp_path, capsys
):
    """The run's files are those of its data, which has changed since."""
    run, data = run_and_data
    file, lines = data / name, (data / name).read_text().splitlines(keepends=True)
    place = run / "predictions" / f"sst-{split}-output.csv"
    last = lines[-1]
    changes = {
        "ids": [*lines, last.replace(last.split("\t")[1], "new")],  # one is missing
        "two rows": [*lines, last],
        "is not in": lines[:-1],
    }
    for part, changed in changes.items():
        file.write_text("".join(changed))
        assert main("predict", run, "--zip", tmp_path / "hand-in.zip") == 2
        line = capsys.readouterr().err.splitlines()[-1]  # after a warning: the config was changed
        assert part in line and str(place if part != "two rows" else file) in line, line
        assert not (tmp_path / "hand-in.zip").exists()


def test_what_cannot_be_packed_is_refused(course_run, tmp_path, capsys):
    run = shutil.copytree(course_run, tmp_path / "run")
    file = tmp_path / "hand-in.zip"
    (tmp_path / "text").write_text("mine")
    for words, part in (
        ([run, "trial=true", "--zip", file], "trial"),
        ([run, "tasks.sst.max_dev_rows=5", "--again", "--zip", file], "ids"),
        ([run, run, "--zip", file], "--zip"),
        ([run, "--text", "a film", "--zip", file], "--zip"),
        ([run, "--zip", tmp_path / "text"], "text"),
        ([run, "--zip", tmp_path], str(tmp_path)),
        (
            [run, "--zip", file, *(f"tasks.{task}.course_file=null" for task in TASKS)],
            "course_file",
        ),
    ):
        assert part in complaint(capsys, "predict", *words)
    assert not file.exists() and (tmp_path / "text").read_text() == "mine"
