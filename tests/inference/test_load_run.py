"""A run that is loaded: in a notebook, in another process, with damaged files."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from multitask import UserError, load
from multitask.models import weights
from multitask.store.run_directory import load_lines
from tests.conftest import ROOT
from tests.support.commands import main

FRESH = """
import json, sys
from multitask import load
run = load(sys.argv[1])
texts = json.loads(sys.argv[2])
print(json.dumps({task: run.predict(task, items) for task, items in texts.items()}))
"""


def test_fresh_process_predicts_the_same_for_every_task(course_run):
    files = {t: course_run / "predictions" / f"{t}.dev.jsonl" for t in ("sst", "qqp", "sts")}
    saved = {task: load_lines(file) for task, file in files.items()}
    texts = {
        task: [r["texts"] if len(r["texts"]) > 1 else r["texts"][0] for r in records]
        for task, records in saved.items()
    }
    command = [sys.executable, "-c", FRESH, str(course_run), json.dumps(texts)]
    outcome = json.loads(subprocess.check_output(command, cwd=ROOT, text=True))
    for task, records in saved.items():
        for record, again in zip(records, outcome[task], strict=True):
            shown = again["scores"][-len(record["scores"]) :]  # files have one of two probabilities
            np.testing.assert_allclose(shown, record["scores"], atol=2e-6)


def test_notebook_interface(course_run):
    run = load(course_run)
    assert run.tasks == ["sst", "qqp", "sts"]
    (good,) = run.predict("sst", ["a good film"])
    assert set(good) == {"prediction", "name", "scores"} and len(good["scores"]) == 5
    vectors = run.encode(["the cat runs .", "a man", "the cat runs ."])
    assert vectors.shape == (3, 32) and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    (pair,) = run.predict("sts", [("the cat runs .", "a man")])
    a, b = run.encode(["the cat runs .", "a man"], task="sts")
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert pair["prediction"] == pytest.approx(5 * cosine, abs=1e-4)


def test_two_classes_have_two_probabilities(course_run):
    run = load(course_run)
    pairs = [("the cat runs ?", "the cat runs ?"), ("the cat runs ?", "a man ?")]
    for record in run.predict("qqp", pairs):
        different, paraphrase = record["scores"]
        assert different + paraphrase == pytest.approx(1)
        assert record["prediction"] == (paraphrase > 0.5)
    assert [len(r["scores"]) for r in run.predict("sts", pairs)] == [1, 1]
    saved = load_lines(course_run / "predictions" / "qqp.dev.jsonl")
    assert {len(record["scores"]) for record in saved} == {1}


@pytest.mark.parametrize("nothing", [[], (), iter([])])
def test_no_texts_have_no_predictions(nothing, course_run):
    run = load(course_run)
    assert run.predict("sst", nothing) == []
    with pytest.raises(UserError, match="no task 'nli'"):
        run.predict("nli", nothing)


def test_a_run_shows_what_it_is(course_run):
    run = load(course_run)
    steps = ", ".join(f"{task} (step {run.steps[task]})" for task in ("sst", "qqp", "sts"))
    assert os.fspath(run) == str(course_run)
    assert repr(run) == f"<run {course_run} on {run.device}: {steps}>"


def test_weights_are_hashed_once(course_run, monkeypatch):
    hashed = []
    check = weights.has_checksum
    monkeypatch.setattr(weights, "has_checksum", lambda file: (hashed.append(file), check(file)))
    run = load(course_run)
    for task in ("sst", "qqp", "sts", "sst"):
        run.model_for(task)
    assert sorted(hashed) == sorted(map(run.files.weights_of, set(run.steps.values())))


def test_overrides_that_do_not_fit_the_weights_are_refused(course_run, capsys):
    assert main("evaluate", course_run, "tasks.sst.projection=tanh") == 2
    assert "do not fit the config" in capsys.readouterr().err


def test_what_a_notebook_may_get_wrong(course_run, monkeypatch):
    monkeypatch.setenv("HOME", str(course_run.parent))
    run = load(f"~/{course_run.name}")
    for wrong, message in (
        (lambda: run.predict(None, ["a"]), "no task None .*sst, qqp, sts"),
        (lambda: load(course_run, "device=cpu"), "overrides: .*, not str"),
        (lambda: load(course_run, [3]), r"overrides: .*, not \[3\]"),
        (lambda: load("a\0b"), "is no path"),
    ):
        with pytest.raises(UserError, match=message):
            wrong()


@pytest.mark.parametrize("texts", ["great", "", {}, [None], [float("nan")], [["a", "b"]]])
def test_texts_of_another_shape_are_refused(texts, course_run):
    with pytest.raises(UserError, match="single texts"):
        load(course_run).predict("sst", texts)
