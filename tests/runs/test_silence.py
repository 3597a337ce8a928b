"""No part of a run works in silence, and a run says that it stops, wherever a signal comes."""

import os
import signal
from importlib import import_module
from pathlib import Path

import pytest

from multitask.config import load_config
from multitask.training.train_run import train
from multitask.utils import heartbeat
from tests.conftest import ROOT
from tests.support.commands import main
from tests.support.run_files import events, results

# what may take long, and the words that say so
PARTS = {
    "multitask.data.readers.columns:read_table": "reading train of sst",
    "multitask.data.tokenize:_encoded": "tokenizing ",
    "multitask.data.splits:in_training": "reading the data",
    "multitask.models.pretrained:load_encoder": "loading ",
    "multitask.training.setup:plan_stages": "planning the run",
    "multitask.training.frozen_probe:trivial_scores": "measuring the baselines",
    "multitask.training.frozen_probe:_probe_scores": "training sst's head on the frozen encoder",
    "multitask.training.trainer:train_step": "training",
    "multitask.inference.scoring:collate": "encoding sst, 0 of ",
    "multitask.training.report_json:write_predictions": "scoring the selected weights",
    "multitask.training.report_json:write_reports": "scoring the selected weights",
}
# where a signal comes: before anything is written, or when a resume has something to go on from
LOADING = ["multitask.data.tokenize:_encoded", "multitask.training.setup:plan_stages"]
BEGUN = [
    "multitask.training.frozen_probe:trivial_scores",
    "multitask.training.frozen_probe:_probe_scores",
    "multitask.training.report_json:write_predictions",
]


@pytest.fixture
def words(tiny_overrides, tmp_path, monkeypatch):
    """The words of a training run of three tasks; its tokens are in no cache."""
    monkeypatch.setenv("MULTITASK_CACHE", str(tmp_path / "cache"))
    changes = [*tiny_overrides, "training.epochs=1", f"output_dir={tmp_path / 'run'}"]
    return [str(ROOT / "configs/cs224n.yaml"), *changes]


def before_call(monkeypatch, place: str, act, nth: int = 1) -> list[bool]:
    """Let ``act`` be called inside of call ``nth`` of ``place``; the list is filled when it was."""
    owner, name = place.split(":")
    module, calls = import_module(owner), []
    original = getattr(module, name)

    def patched(*args, **options):
        calls.append(True)
        if len(calls) == nth:
            act()
        return original(*args, **options)

    monkeypatch.setattr(module, name, patched)
    return calls


@pytest.mark.parametrize("place", PARTS)
def test_every_part_of_a_run_says_what_it_does(place, words, monkeypatch):
    said = []

    def wait() -> None:
        said.clear()
        heartbeat.speak(heartbeat.terminal.latest + 31)
        raise ZeroDivisionError  # the rest of the run is of no interest

    first_of_an_epoch = 2  # the untrained head is scored before
    before_call(
        monkeypatch, place, wait, first_of_an_epoch if place.endswith(":_probe_scores") else 1
    )
    config = load_config(words[0], words[1:])
    with pytest.raises(ZeroDivisionError):
        train(config, say=said.append)
    assert len(said) == 1 and said[0].startswith(PARTS[place]), said


def test_an_evaluation_counts_its_batches(words, monkeypatch):
    """That of half of a trial, too: the batch after the first step is of an evaluation."""
    said = []

    def wait() -> None:
        heartbeat.speak(heartbeat.terminal.latest + 31)
        raise ZeroDivisionError

    monkeypatch.setattr("multitask.training.train_run.run_baselines", lambda *_: {})
    before_call(monkeypatch, "multitask.inference.scoring:collate", wait)
    with pytest.raises(ZeroDivisionError):
        train(load_config(words[0], words[1:]), say=said.append)
    assert said[-1].startswith("scoring sst, 0 of "), said[-1]


@pytest.mark.slow
@pytest.mark.parametrize("place", [*LOADING, *BEGUN])
def test_a_run_that_sigterm_stops_says_how_to_go_on(place, words, tmp_path, monkeypatch, capsys):
    run = Path(tmp_path / "run")
    with monkeypatch.context() as patch:
        before_call(patch, place, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert main(*words) == os.EX_TEMPFAIL
    error = capsys.readouterr().err
    assert error.startswith("error: interrupted; ") and error.count("\n") == 1
    assert ("--resume" in error) == (place in BEGUN)
    assert run.exists() == (place in BEGUN)
    assert main(*words, *(["--resume"] if place in BEGUN else [])) == 0
    whole = tmp_path / "whole"
    assert main(*words, f"output_dir={whole}") == 0
    assert events(run) == events(whole) and results(run) == results(whole)


@pytest.mark.slow
def test_sigterm_in_a_run_that_replaces_another_names_resume_alone(
    words, tmp_path, monkeypatch, capsys
):
    assert main(*words) == 0
    with monkeypatch.context() as patch:
        before_call(patch, BEGUN[1], lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert main(*words, "--overwrite") == os.EX_TEMPFAIL
    assert "--resume in place of --overwrite" in capsys.readouterr().err
    assert main(*words, "--resume") == 0
