"""A run with LoRA in each encoder: killed and resumed, predicted with, exported to every format."""

import numpy as np
import pytest
import torch

import run_multitask
from multitask import load
from tests.support import encoder_run
from tests.support.kill import kill_inside
from tests.support.messages import complaint
from tests.support.run_files import results

# other options than the defaults, a task without LoRA, SMART, a joint step
CHANGES = [
    "tasks.sst.adapter={name: lora, r: 3, alpha: 5, dropout: 0.1, layers: [2]}",
    "tasks.sst.smart={}",
    "tasks.sst.pooling=cls",
    "tasks.sst.projection=tanh",
    "tasks.sts.adapter=lora",
    "training.adapter_lr=0.05",
    "training.combine=joint",
    "training.checkpoint_steps=2",
    "training.max_steps=5",
    "training.frozen_baseline=false",
]
EXPORTS = {"peft": "sst", "transformers": "sst", "sentence-transformers": "sts", "onnx": "sts"}


def arguments(kind, course_files, directory, run, *more):
    return encoder_run.arguments(kind, course_files, directory, run, *CHANGES, *more)


@pytest.mark.parametrize("frozen", ["true", "false"])
@pytest.mark.parametrize("kind", ["bert", "mpnet", "albert", "deberta-v2", "modernbert"])
@pytest.mark.slow
def test_a_killed_run_resumes_predicts_and_exports(kind, frozen, course_files, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    layers = ["tasks.sst.adapter.layers=null"] if kind == "albert" else []  # one group of them
    more = [f"encoder.freeze={frozen}", *layers]
    assert run_multitask.main(arguments(kind, course_files, tmp_path, whole, *more)) == 0
    command = arguments(kind, course_files, tmp_path, killed, *more)
    kill_inside("multitask.training.trainer:train_step", "after", 3, command)
    assert run_multitask.main([*command, "--resume"]) == 0
    assert results(killed) == results(whole)
    run = load(killed)
    vectors = run.encode(["a good film", "a bad film that is longer"], task="sts")
    alone = run.encode(["a good film"], task="sts")
    assert np.isfinite(vectors).all() and np.allclose(vectors[0], alone[0], atol=1e-5)
    _, adapter = run.encoder("sts")
    assert adapter is not None and any(term.up.weight.any() for term in adapter.terms.values())
    for form, task in EXPORTS.items():
        export = ["export", str(killed), str(tmp_path / form), "--format", form, "--task", task]
        if form == "transformers" and kind in ("deberta-v2", "modernbert"):
            export.append("--encoder-only")
        assert run_multitask.main(export) == 0, form  # it compares the numbers
    drawn = ["attention", str(killed), "--text", "a good film", "--task", "sts"]
    drawn += ["--output", str(tmp_path / "drawn")]
    assert run_multitask.main(drawn) == 0


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_a_step_changes_what_is_trained_alone(kind, course_files, tmp_path):
    run = tmp_path / "run"
    more = ["training.max_steps=2", "encoder.freeze=true"]
    assert run_multitask.main(arguments(kind, course_files, tmp_path, run, *more)) == 0
    trained = load(run)
    encoder, adapter = trained.encoder("sst")
    assert adapter.targets.keys() == {2}
    assert all(term.up.weight.any() for term in adapter.terms.values())
    assert trained.model.adapter("qqp") is None
    start = load_start(kind, tmp_path)
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, start[name]), name


def load_start(kind, directory):
    from multitask.models.pretrained import load_encoder_and_tokenizer

    return load_encoder_and_tokenizer(directory / kind)[0].state_dict()


@pytest.mark.parametrize(
    ("more", "key"),
    [
        (["tasks.sst.adapter=pal"], "tasks.sst.adapter"),
        (["encoder.gradient_checkpointing=true"], "tasks.sst.adapter"),
        (["tasks.sst.adapter={name: lora, targets: [query]}"], "tasks.sst.adapter"),
    ],
    ids=["pal", "checkpointing", "targets"],
)
def test_what_an_encoder_of_transformers_lacks(more, key, course_files, tmp_path, capsys):
    command = arguments("modernbert", course_files, tmp_path, tmp_path / "run", *more)
    assert key in complaint(capsys, *command)
    assert not (tmp_path / "run" / "report.json").exists()


def test_layers_of_our_own_encoder_are_computed_again(course_files, tmp_path):
    runs = []
    for again in ("false", "true"):
        run = tmp_path / again
        more = [f"encoder.gradient_checkpointing={again}", "training.max_steps=3"]
        assert run_multitask.main(arguments("bert", course_files, tmp_path, run, *more)) == 0
        runs.append(load(run).model.state_dict())
    for name, tensor in runs[0].items():
        torch.testing.assert_close(runs[1][name], tensor, rtol=1e-4, atol=1e-5)
