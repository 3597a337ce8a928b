"""`predict`: the files of a run's splits, and texts of a file. Ensembles: test_ensemble.py."""

import json
import shutil

import numpy as np
import pytest

from multitask.store.run_directory import load_lines
from tests.support.commands import main
from tests.support.messages import complaint


def test_predict_rewrites_the_same_files(course_run, tmp_path):
    course_run = shutil.copytree(course_run, tmp_path / "run")
    files = sorted((course_run / "predictions").glob("*-output.csv"))
    before = {file.name: file.read_bytes() for file in files}
    assert len(before) == 6
    for file in files:
        file.unlink()
    assert main("predict", course_run) == 0
    assert {file.name: file.read_bytes() for file in files} == before


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
    assert record["name"] in (
        "negative",
        "somewhat negative",
        "neutral",
        "somewhat positive",
        "positive",
    )
    assert record["prediction"] == int(np.argmax(record["scores"]))
    assert (record["id"], record["texts"]) == ("x", ["a good film"])
    # predictions may be written anew; nothing else is overwritten
    assert main("predict", course_run, "--task", "sst", "--file", table, "--output", output) == 0
    before = table.read_text()
    for place, words in ((table, "holds no predictions"), (tmp_path, "is a directory")):
        assert main("predict", course_run, "--task", "sst", "--file", table, "--output", place) == 2
        assert words in capsys.readouterr().err
    assert table.read_text() == before


def test_texts_of_the_user_need_no_ids(course_run, tmp_path, capsys):
    table = tmp_path / "own.jsonl"
    table.write_text('{"sentence": "a good film"}\n{"sentence": "a bad film"}\n')
    assert main("predict", course_run, "--task", "sst", "--file", table) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["id"] for record in printed] == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "sts"], "predict: --task is for --file and --text"),
        (["--file", "{tmp}/good.txt"], "name the task by --task: one of sst, "),
        (["--text", "a", "--file", "{tmp}/good.txt"], "predict: give --file or --text, not both"),
        (["--text", "a", "--again", "--task", "sst"], "--again is for the files of one run"),
        (["--text", "a", "--task", "sts"], "--text takes "),
        (["--output", "{tmp}/x.jsonl"], "predict: --output is for --file"),
        (
            ["--task", "sst2", "--file", "{tmp}/good.txt"],
            "no task 'sst2'",
        ),
        (["--task", "sst", "--file", "{tmp}/none.txt"], "no such file: {tmp}/none.txt"),
        (["--task", "sst", "--file", "{tmp}"], "not a file: {tmp}"),
        (["--task", "sst", "--file", "{tmp}/good.txt", "--output", "/dev/null"], "neither a file"),
        (["--task", "sst", "--file", "{tmp}/pair.txt"], "pair.txt, line 1: expected one text"),
        (["--task", "sts", "--file", "{tmp}/good.txt"], "good.txt, line 1: expected two texts"),
        (["--task", "sst", "--file", "{tmp}/other.csv"], "no column 'sentence' (known: x, y)"),
        (["--task", "sst", "--file", "{tmp}/empty.csv"], "empty.csv: the file is empty"),
        (["--task", "sst", "--file", "{tmp}/sheet.xlsx"], "sheet.xlsx: cannot tell the format"),
        (["--task", "sst", "--file", "{tmp}/good.txt", "--output", "{tmp}/no/x"], "{tmp}/no/"),
        (["data_dir={tmp}"], "no such file: {tmp}/ids-sst-dev.csv (is `data_dir` right?)"),
        (["tasks.sst.pooling=men"], "unknown pooling 'men'"),
        (["device=cuda:99"], "this machine has no 'cuda:99' device"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tiny_run, capsys, tmp_path):
    files = {
        "good.txt": "a good film\n",
        "pair.txt": "a film\ta good film\n",
        "other.csv": "x,y\n1,2\n",
        "empty.csv": "",
        "sheet.xlsx": "PK",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")}
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    assert message.format(tmp=tmp_path) in complaint(capsys, "predict", tiny_run, *given)
    assert {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")} == before


def test_only_missing_and_damaged_files_are_made(course_run, tmp_path, capsys):
    run = shutil.copytree(course_run, tmp_path / "run")
    files = sorted(file for file in (run / "predictions").rglob("*") if file.is_file())
    assert main("predict", run, "--again") == 0
    before = {file: file.read_bytes() for file in files}
    capsys.readouterr()
    assert main("predict", run) == 0
    printed = capsys.readouterr().out
    assert "written" not in printed and printed.count("intact: ") >= 6
    changed = next(file for file in files if file.suffix == ".csv" and "sst" in file.name)
    changed.write_text("damaged")
    assert main("predict", run) == 0
    printed = capsys.readouterr().out
    assert f"written: {changed}" in printed and "intact: " in printed
    assert {file: file.read_bytes() for file in files} == before


def test_a_text_on_the_command_line(course_run, capsys):
    assert main("predict", course_run, "--task", "sst", "--text", "a good film") == 0
    (record,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert record["texts"] == ["a good film"] and "prediction" in record
    assert main("predict", course_run, "--task", "sts", "--text", "a man", "a woman") == 0
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
    assert main("predict", course_run, "--text", "a", "b", "c") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and all(f"{task} (" in error for task in ("sst", "qqp", "sts"))


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
