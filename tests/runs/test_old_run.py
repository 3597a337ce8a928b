"""Runs that commit 5c0042d wrote: every command still reads them, and --resume finishes them.

`tests/old_run/make.py` wrote the runs and says what they are. The tests use the command line, YAML
and `multitask.load` only, so that they hold whatever the modules are called.
"""

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import run_multitask
from multitask import load
from tests.conftest import ROOT

OLD = ROOT / "tests" / "old_run"
TEXTS = ["a good film , not dull", "the dog runs and was awful ."]
PREDICTED = ("mood", "same", "score", "about", "ner", "qa")
# one processor sums in another order than the next: one evaluation differs less than a training
SCORES = {"rel": 1e-5, "abs": 1e-6}
TRAINED = {"rel": 1e-4, "abs": 1e-4}
# ranks among rows whose scores are equal but for rounding: another processor has other ones
TIES = re.compile(r"\.spearman$|views(\.dev|\.metrics|\.intervals|\.dev_intervals)?\.accuracy$")
# the score of training rows: 5c0042d did not clip numbers, and some are above the scale
UNCLIPPED = re.compile(r"^\[\d+\]\.tasks\.score$")


def main(*arguments: object) -> int:
    return run_multitask.main([str(argument) for argument in arguments])


def read(file: Path):
    return json.loads(file.read_text(encoding="utf-8"))


def read_lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def check_close(found, expected, tolerance: dict[str, float], place: str = "") -> None:
    """Compare nested values: numbers with ``tolerance``, else exactly; not TIES and UNCLIPPED.

    A report may have new keys and flags. It may lack `mae`, which is for ordered classes alone.
    """
    if place.endswith(".flags"):
        assert {*expected} <= {*found}, place
        return
    if TIES.search(place) or UNCLIPPED.search(place):
        return
    if isinstance(expected, dict):
        kept = [key for key in expected if key != "mae" or key in found]
        assert [key for key in found if key in expected] == kept, place
        for key in kept:
            check_close(found[key], expected[key], tolerance, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            check_close(one, other, tolerance, f"{place}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, **tolerance), place
    else:
        assert found == expected, place


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs, their data and their encoder. It is the working directory."""
    place = shutil.copytree(OLD, tmp_path / "desk")
    monkeypatch.chdir(place)
    return place


@pytest.fixture(scope="module")
def new_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of some of the tasks, which the code of today trains. Read only."""
    place = shutil.copytree(OLD, tmp_path_factory.mktemp("new") / "desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        short = ["stages=null", "training.max_steps=8", "training.eval_steps=8"]
        left_out = [f"tasks.{name}=null" for name in ("same", "about", "qa", "views", "masked")]
        assert main("finished.yaml", "output_dir=new", "seed=8", *short, *left_out) == 0
    return place / "new"


def test_evaluate_measures_the_scores_of_the_report(desk: Path) -> None:
    assert main("evaluate", "finished", "data_dir=data") == 0
    found = read(desk / "finished" / "evaluation-dev.json")
    tasks = read(desk / "finished" / "report.json")["tasks"]
    assert list(found) == list(tasks) and {"views", "masked", *PREDICTED} == {*tasks}
    for name, task in tasks.items():
        measured = {
            key: value for key, value in task["dev"].items() if key in found[name]["metrics"]
        }
        assert task["metric"] in measured
        check_close(found[name]["metrics"], measured, SCORES, name)
        check_close(found[name]["intervals"], task["dev_intervals"], SCORES, name)


def test_predict_writes_the_predictions_again(desk: Path) -> None:
    saved = {file.name: file for file in (OLD / "finished" / "predictions").iterdir()}
    shutil.rmtree(desk / "finished" / "predictions")
    assert main("predict", "finished", "data_dir=data") == 0
    written = {file.name: file for file in (desk / "finished" / "predictions").iterdir()}
    assert {*written} == {*saved}
    for name, file in saved.items():
        if name.endswith(".jsonl"):
            check_close(read_lines(written[name]), read_lines(file), SCORES | {"abs": 3e-6}, name)
        else:
            assert written[name].read_text() == file.read_text()


def test_predict_reads_texts_of_a_file(desk: Path, capsys: pytest.CaptureFixture) -> None:
    capsys.readouterr()
    assert main("predict", "finished", "--task", "mood", "--file", "data/texts.txt") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    check_close(found, read_lines(OLD / "expected" / "texts.jsonl"), SCORES)


def test_load_predicts_and_encodes(desk: Path) -> None:
    run = load("finished")
    expected = read_lines(OLD / "expected" / "texts.jsonl")
    for one, other in zip(run.predict("mood", TEXTS), expected, strict=True):
        assert one["prediction"] == other["prediction"]
        np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-5)
    saved = {task: read_lines(desk / "finished" / "predictions" / f"{task}.dev.jsonl") for task in
             PREDICTED}  # fmt: skip
    assert (
        run.predict("ner", [saved["ner"][0]["words"]])[0]["prediction"]
        == (saved["ner"][0]["prediction"])
    )
    for task in ("same", "score", "about", "qa"):
        record = saved[task][1]
        text = record["texts"][0] if task == "about" else tuple(record["texts"])
        (one,) = run.predict(task, [text])
        # of two classes, the file has the probability of the second
        np.testing.assert_allclose(
            one["scores"][-len(record["scores"]) :], record["scores"], atol=1e-5
        )
    assert run.encode(TEXTS, task="score").shape == (2, 8)


def test_report_compares_it_with_a_new_run(
    desk: Path, new_run: Path, capsys: pytest.CaptureFixture
) -> None:
    capsys.readouterr()
    assert main("report", "finished", new_run) == 0
    table = capsys.readouterr().out
    assert "finished" in table and "new" in table
    for run in (desk / "finished", new_run):
        tasks = read(run / "report.json")["tasks"]
        for name in ("mood", "score", "ner"):
            metric = tasks[name]["metric"]
            assert f"{name} {metric}" in table
            assert f"{tasks[name]['dev'][metric]:.3f}" in table


def test_an_ensemble_averages_it_with_a_new_run(desk: Path, new_run: Path) -> None:
    assert main("predict", "finished", new_run, "--output", "both") == 0
    runs = (desk / "finished", new_run)
    parts = [read_lines(run / "predictions" / "mood.dev.jsonl") for run in runs]
    found = read_lines(desk / "both" / "predictions" / "mood.dev.jsonl")
    for both, one, other in zip(found, *parts, strict=True):
        means = np.mean([one["scores"], other["scores"]], axis=0)
        np.testing.assert_allclose(both["scores"], means, atol=2e-6)


def test_a_new_run_starts_from_it(desk: Path) -> None:
    start = ["init_from=finished", "output_dir=next", "stages=null", "training.max_steps=2"]
    others = [f"tasks.{name}=null" for name in ("about", "ner", "qa", "views", "masked")]
    assert main("finished.yaml", *start, *others) == 0
    taken = read(desk / "next" / "report.json")["init_from"]
    selected = read(desk / "finished" / "report.json")["tasks"]["mood"]["selected_step"]
    assert (taken["task"], taken["seed"], taken["step"]) == ("mood", 5, selected)


def test_export_writes_a_model_for_transformers(desk: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    form = ["--format", "transformers", "--task", "mood"]
    assert main("export", "finished", "model", "data_dir=data", *form) == 0
    model = AutoModelForSequenceClassification.from_pretrained(desk / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(desk / "model")
    for text, expected in zip(TEXTS, read_lines(OLD / "expected" / "texts.jsonl"), strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits
        np.testing.assert_allclose(logits.softmax(-1)[0], expected["scores"], atol=1e-4)
    assert model.config.id2label == {0: "bad", 1: "fair", 2: "good"}


def test_attention_is_drawn(desk: Path) -> None:
    assert main("attention", "finished", "--text", TEXTS[0]) == 0
    assert (desk / "finished" / "attention.png").is_file()


def test_serve_shows_its_scores_and_its_report(desk: Path) -> None:
    pytest.importorskip("flask", reason="flask is not installed (dev requirement)")
    command = [sys.executable, str(ROOT / "run_multitask.py"), "serve", "finished", "--port", "0"]
    process = subprocess.Popen(
        command,
        cwd=desk,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        address = re.match(r"(http://127\.0\.0\.1:\d+/) shows finished", line)
        assert address, (line, process.poll() is not None and process.stderr.read())
        form = urllib.parse.urlencode({"first": TEXTS[0], "second": TEXTS[1]}).encode()
        with urllib.request.urlopen(address[1], data=form, timeout=60) as reply:
            page = reply.read().decode()
        with urllib.request.urlopen(f"{address[1]}report", timeout=60) as reply:
            assert reply.read() == (desk / "finished" / "report.html").read_bytes()
    finally:
        process.kill()
        process.communicate()
    for share in read_lines(OLD / "expected" / "texts.jsonl")[0]["scores"]:
        assert f"{100 * share:.1f} %" in page.replace("\u00a0", " ")
    for task in ("same", "score", "about", "ner", "qa", "views"):
        assert f'data-task="{task}"' in page


@pytest.mark.parametrize("name", ["joint", "turns"])
def test_a_killed_run_resumes_to_the_numbers_of_the_whole_run(name: str, desk: Path) -> None:
    """All lines of its log are those of the run that 5c0042d did not have to resume."""
    if name == "joint":
        pytest.importorskip("torchjd", reason="gradient surgery is an extra")
    (checkpoint,) = (desk / name / "checkpoints").iterdir()
    saved_at = int(checkpoint.name.removeprefix("step-"))
    whole = OLD / "expected" / name
    assert read_lines(desk / name / "metrics.jsonl")[-1]["step"] > saved_at
    assert main(f"{name}.yaml", "--resume") == 0
    # on the processor that made it they are equal to the last bit
    found, expected = (read_lines(run / "metrics.jsonl") for run in (desk / name, whole))
    check_close(found, expected, TRAINED)
    assert found[-1]["step"] > saved_at
    report, complete = read(desk / name / "report.json"), read(whole / "report.json")
    assert report["steps"] == complete["steps"]
    for part in ("overall", "tasks"):
        check_close(report[part], complete[part], TRAINED, part)
    for task in report["tasks"].values():
        assert task["selected_step"] > saved_at, "the steps after the kill are not measured"
        assert math.isfinite(task["dev"]["loss"]) and math.isfinite(task["dev"][task["metric"]])


def test_a_checkpoint_of_an_unknown_format_is_one_line(
    desk: Path, capsys: pytest.CaptureFixture
) -> None:
    """The hashes in state.json are of the other files, so they still fit."""
    (file,) = (desk / "turns" / "checkpoints").glob("*/state.json")
    state = read(file)
    assert state["format"] == 3
    for tensors, digest in state["sha256"].items():
        assert hashlib.sha256((file.parent / tensors).read_bytes()).hexdigest() == digest
    file.write_text(json.dumps(state | {"format": 1000}))
    before = (desk / "turns" / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    assert main("turns.yaml", "--resume") == 2
    errors = capsys.readouterr().err
    (line,) = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert errors.endswith(f"{line}\n") and "Traceback" not in errors
    assert file.parent.name in line and re.search("version|format", line)
    assert read(file)["format"] == 1000, "it is not set aside as damaged"
    assert (desk / "turns" / "metrics.jsonl").read_bytes() == before
