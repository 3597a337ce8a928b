"""Cosines between the tasks' gradients against autograd, and that measuring changes nothing."""

import json

import pytest
import torch
from torch.nn.functional import cosine_similarity

import run_multitask
from multitask.data.collate import separate
from multitask.training.gradient_conflict import conflict_summary, gradient_cosines
from tests.conftest import write_course_files
from tests.support.contrastive_run import write_config, write_triplets
from tests.support.messages import complaint
from tests.support.small_models import batch

SST = "{data: {train: ids-sst-train.csv, dev: ids-sst-dev.csv, format: tsv, text: sentence,"
SST += " label: sentiment}, head: classification, max_length: 48}"


def test_cosines_are_those_of_autograd(make):
    model = make()
    state = torch.get_rng_state()
    result = gradient_cosines(model, {"sst": batch("sst"), "qqp": batch("qqp")})
    assert torch.equal(state, torch.get_rng_state()) and model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    model.eval()
    parts = {"all": list(model.encoder.parameters()), **model.shared()}
    assert list(result) == list(parts)
    losses = {
        task: model.head(task).criterion(
            model(separate({task: batch(task)}))[task], batch(task).labels
        )
        for task in ("sst", "qqp")
    }
    for part, parameters in parts.items():
        one, other = (
            torch.cat(
                [
                    g.flatten()
                    for g in torch.autograd.grad(
                        loss,
                        parameters,
                        retain_graph=True,
                        allow_unused=True,
                        materialize_grads=True,
                    )
                ]
            )
            for loss in losses.values()
        )
        assert result[part]["sst-qqp"] == pytest.approx(cosine_similarity(one, other, dim=0).item())


@pytest.mark.slow
def test_measuring_is_logged_and_changes_no_step(tiny_overrides, tmp_path):
    runs = []
    for number, more in enumerate(([], ["training.conflict_steps=2"])):
        runs.append(tmp_path / str(number))
        command = ["configs/cs224n.yaml", *tiny_overrides, "training.epochs=1", *more]
        assert run_multitask.main([*command, f"output_dir={runs[-1]}"]) == 0
    plain, measured = (
        [json.loads(line) for line in (run / "metrics.jsonl").open()] for run in runs
    )
    conflicts = [line for line in measured if line["event"] == "conflict"]
    assert [line for line in measured if line["event"] != "conflict"] == plain
    assert [line["step"] for line in conflicts] == [2, 4, 6, 8]
    assert set(conflicts[0]["cosines"]) == {"all", "embeddings", "layer_1", "layer_2"}
    assert set(conflicts[0]["cosines"]["all"]) == {"sst-qqp", "sst-sts", "qqp-sts"}
    assert all(-1 <= value <= 1 for value in conflicts[0]["cosines"]["all"].values())
    result = [json.loads((run / "report.json").read_text())["conflict"] for run in runs]
    assert result == [None, conflict_summary(conflicts)]


@pytest.mark.parametrize(
    ("more", "pairs"),
    [
        (["tasks.sst=" + SST], {"sts-sst"}),
        ([], None),  # one task is left, which agrees with itself
        (["tasks.sst=" + SST, "encoder.freeze=true"], None),
        (["tasks.sst=" + SST, "stages=[{tasks: [views, sts]}, {tasks: [views, sst]}]"], None),
    ],
)
def test_contrastive_tasks_and_frozen_encoders_are_left_out(
    more, pairs, tmp_path, tiny_encoder, capsys
):
    """Without dropout two views of one text are equal."""
    write_triplets(write_course_files(tmp_path))
    file = write_config(tmp_path / "c.yaml", tiny_encoder, tmp_path)
    directory = tmp_path / "run"
    asked = ["training.conflict_steps=1", "training.max_steps=2", f"output_dir={directory}"]
    given = [file, "stages=null", "tasks.views.dropout=0.1", *more, *asked]
    if pairs is None:
        line = complaint(capsys, *given)
        assert "training.conflict_steps: in no stage do two tasks that are not contrastive" in line
        return
    assert run_multitask.main(given) == 0
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    result = [line["cosines"]["all"] for line in lines if line["event"] == "conflict"]
    assert [set(cosines) for cosines in result] == [pairs, pairs]


def test_the_summary_counts_what_was_measured():
    def event(**cosines):
        return {"event": "conflict", "cosines": {"all": cosines, "layer_1": {"a-b": 0.9}}}

    events = [
        {"event": "step"},
        event(**{"a-b": 0.3, "a-c": -0.1}),
        event(**{"a-b": -0.1, "a-c": None}),  # c had no gradient
        event(**{"a-b": 0.4}),  # c had stopped
        {"event": "conflict", "cosines": {}},
    ]
    assert conflict_summary(events) == {
        "a-b": {"measured": 3, "mean": pytest.approx(0.2), "below_0": pytest.approx(1 / 3)},
        "a-c": {"measured": 1, "mean": -0.1, "below_0": 1.0},
    }
    assert conflict_summary([{"event": "step"}, {"event": "conflict", "cosines": {}}]) is None
