"""Poolers on token states give the vectors of the complete model; the baselines of a run."""

import json

import pytest
import torch

import run_multitask
from multitask.data.collate import collate, separate
from multitask.inference.scoring import measure
from multitask.store.run_directory import RunDirectory
from multitask.training import frozen_probe
from multitask.training.frozen_probe import TokenStates, run_baselines, splits_in_use
from multitask.utils.errors import NotFinite
from tests.conftest import ROOT
from tests.support.run_files import events

CPU = torch.device("cpu")
TASKS = ("sst", "qqp", "sts")


@pytest.mark.parametrize("task", ["sst", "qqp"])
@pytest.mark.parametrize("pooling", ["{name: max_seq_mha, last: 2}", "hire"])
@pytest.mark.parametrize("kept", [2**31, 0], ids=["kept", "encoded anew"])
@pytest.mark.parametrize("implementation", ["own", "transformers"])
def test_vectors_are_those_of_the_complete_model(
    planned, task, pooling, kept, implementation, monkeypatch
):
    monkeypatch.setattr(frozen_probe, "STORED_BYTES", kept)
    monkeypatch.setattr(frozen_probe, "BATCH_SIZE", 7)
    changes = [f"tasks.{task}.pooling={pooling}", f"encoder.implementation={implementation}"]
    made = planned(*changes, "training.precision=fp32")
    model, splits = made.model, made.data.splits[task]
    model.train()
    states = TokenStates(model, splits, pad_id=0, device=CPU)
    model.tasks.eval()
    passes = []
    encode = model.encoder.encode
    monkeypatch.setattr(
        model.encoder, "encode", lambda *g, **more: passes.append(g) or encode(*g, **more)
    )
    pooler = model.module(task).pooler
    for split in splits_in_use(splits):
        every = states(pooler, split, None)
        chosen = torch.tensor([3, 0, 11, 3])
        some = states(pooler, split, chosen)
        again = len(passes)
        torch.testing.assert_close(states(pooler, split, chosen), some)
        assert (len(passes) == again) == bool(kept)
        assert not every.isnan().any() and len(every) == len(splits[split].rows)
        torch.testing.assert_close(some, every[chosen], rtol=1e-4, atol=1e-5)
        for row in (0, 5):
            batch = collate(splits[split].tokens, chosen.new_tensor([row]).numpy(), pad_id=0)
            with torch.no_grad():
                vectors = model.pooled(separate({task: batch}))[task]
            torch.testing.assert_close(every[row], vectors, rtol=1e-4, atol=1e-5)


def test_gradients_reach_the_pooler_and_not_the_encoder(planned):
    made = planned("tasks.sst.pooling=mha")
    states = TokenStates(made.model, made.data.splits["sst"], pad_id=0, device=CPU)
    pooler = made.model.module("sst").pooler
    states(pooler, "train", torch.tensor([0, 1])).sum().backward()
    assert all(parameter.grad is not None for parameter in pooler.parameters())
    assert all(parameter.grad is None for parameter in made.model.encoder.parameters())


# --- the scores that a run is measured against ---


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    return RunDirectory(tmp_path / "run")


def contents(baselines):
    """The content of baselines.json."""
    return {task: scores.content() for task, scores in baselines.items()}


def test_trivial_and_frozen_scores_of_every_task_are_saved(planned, run):
    plan, said = planned(), []
    actual = run_baselines(plan, run, said.append)
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
    result = run_baselines(planned(change), run, lambda line: None)
    assert [result[task].frozen for task in TASKS] == [None] * 3
    assert all(result[task].trivial for task in TASKS)


def test_a_resumed_run_reads_what_was_saved_unless_it_is_damaged(planned, run):
    plan = planned("training.frozen_baseline=false")
    first = run_baselines(plan, run, lambda line: None)
    saved = {
        task: scores | {"frozen": {"accuracy": 0.75}} for task, scores in contents(first).items()
    }
    run.write_json(run.baselines, saved)
    run.seal(finished=False)
    assert contents(run_baselines(plan, run, lambda line: None)) == saved
    for text in ('{"sst": ', '{"sst": {"trivial": {}}}', json.dumps(saved)):  # as nothing wrote it
        run.baselines.write_text(text)
        assert run_baselines(plan, run, lambda line: None) == first
        assert json.loads(run.baselines.read_text()) == contents(first)


def test_a_baseline_that_is_not_finite_is_in_the_log(tiny_overrides, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise NotFinite("task sst: the head's scores are not finite numbers")

    monkeypatch.setattr("multitask.training.frozen_probe.frozen_head_scores", fail)
    monkeypatch.chdir(ROOT)
    arguments = ["configs/cs224n.yaml", *tiny_overrides, "training.frozen_baseline=true"]
    assert run_multitask.main(arguments) == 2
    (event,) = events(tmp_path / "run")
    assert (event["event"], event["step"]) == ("diverged", 0) and "task sst" in event["reason"]
    monkeypatch.undo()
    monkeypatch.chdir(ROOT)
    assert run_multitask.main([*arguments, "--resume"]) == 0
    assert "diverged" not in {event["event"] for event in events(tmp_path / "run")}
