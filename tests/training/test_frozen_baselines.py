"""The scores that a run is measured against."""

import json

import pytest
import torch

import run_multitask
from multitask.config import load_config
from multitask.inference.scoring import measure
from multitask.store.run_directory import RunDirectory
from multitask.training.frozen_baselines import run_baselines
from multitask.training.setup import set_up
from multitask.utils.errors import NotFinite
from tests.conftest import ROOT
from tests.support.run_files import events

TASKS = ("sst", "qqp", "sts")


@pytest.fixture
def planned(tiny_overrides):
    def planned(*changes):
        config = load_config(ROOT / "configs/cs224n.yaml", [*tiny_overrides, *changes])
        return set_up(config, torch.device("cpu"), lambda line: None)

    return planned


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    return RunDirectory(tmp_path / "run")


def contents(baselines):
    """The content of baselines.json."""
    return {task: scores.content() for task, scores in baselines.items()}


def test_trivial_and_frozen_scores_of_every_task_are_saved(planned, run):
    plan, said = planned(), []
    actual = run_baselines(plan, run, False, said.append)
    assert json.loads(run.baselines.read_text()) == contents(actual)
    first, *between, last = said
    assert first == "measuring the baselines" and last.startswith("baselines measured in ")
    assert between == [f"baseline: {task}'s head on the frozen encoder" for task in TASKS]
    # as often as any label, the first of train: on 12 dev rows labelled 0 1 2 3 4 0 1 ...
    assert actual["sst"].trivial["accuracy"] == pytest.approx(3 / 12)
    # the cosine has nothing to train: its baseline is the model before the first step
    dev = plan.data.splits["sts"]["dev"]
    expected = measure(plan.scorer.score("sts", dev), dev.rows, plan.data.readers["sts"])
    assert actual["sts"].frozen == pytest.approx(expected, rel=1e-5)
    before = plan.data.splits["sst"]["dev"]
    untrained = measure(plan.scorer.score("sst", before), before.rows, plan.data.readers["sst"])
    assert actual["sst"].frozen["accuracy"] >= untrained["accuracy"]


@pytest.mark.parametrize(
    "change", ["training.frozen_baseline=false", "encoder.freeze=true"], ids=["off", "frozen run"]
)
def test_the_frozen_encoder_is_left_out(planned, run, change):
    result = run_baselines(planned(change), run, False, lambda line: None)
    assert [result[task].frozen for task in TASKS] == [None] * 3
    assert all(result[task].trivial for task in TASKS)


def test_a_resumed_run_reads_what_was_saved_unless_it_is_damaged(planned, run):
    plan = planned("training.frozen_baseline=false")
    first = run_baselines(plan, run, False, lambda line: None)
    saved = {
        task: scores | {"frozen": {"accuracy": 0.75}} for task, scores in contents(first).items()
    }
    run.write_json(run.baselines, saved)
    assert contents(run_baselines(plan, run, True, lambda line: None)) == saved
    for text in ('{"sst": ', '{"sst": {"trivial": {}}}', json.dumps(saved)):  # as nothing wrote it
        run.baselines.write_text(text)
        assert run_baselines(plan, run, True, lambda line: None) == first
        assert json.loads(run.baselines.read_text()) == contents(first)


def test_a_baseline_that_is_not_finite_is_in_the_log(tiny_overrides, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise NotFinite("task sst: the head's scores are not finite numbers")

    monkeypatch.setattr("multitask.training.frozen_baselines.frozen_head_scores", fail)
    monkeypatch.chdir(ROOT)
    arguments = ["configs/cs224n.yaml", *tiny_overrides, "training.frozen_baseline=true"]
    assert run_multitask.main(arguments) == 2
    (event,) = events(tmp_path / "run")
    assert (event["event"], event["step"]) == ("diverged", 0) and "task sst" in event["reason"]
    monkeypatch.undo()
    monkeypatch.chdir(ROOT)
    assert run_multitask.main([*arguments, "--resume"]) == 0
    assert "diverged" not in {event["event"] for event in events(tmp_path / "run")}
