"""A run on each type of encoder: trained, killed and resumed, loaded, predicted with, exported."""

import numpy as np
import pytest
import torch

import run_multitask
from multitask import load
from multitask.config import load_config
from multitask.models.encoders.hf_layout import LAYOUTS
from multitask.models.pretrained import load_encoder_and_tokenizer
from multitask.training.setup import set_up
from tests.conftest import save_tiny_encoder, write_course_files
from tests.support import encoder_run
from tests.support.contrastive_run import CONFIG, DATA, write_triplets
from tests.support.kill import kill_inside
from tests.support.messages import complaint
from tests.support.option_runs import configs, write_config, write_rows
from tests.support.option_values import DIM, LAYERS
from tests.support.run_files import events, report_of, results
from tests.support.tiny_bert import save_tiny_mlm

# other poolings than the default, a joined pair, SMART and joint steps
CHANGES = [
    "tasks.sst.pooling={name: layer_attention, variant: avg_all}",
    "tasks.sst.smart={}",
    "tasks.qqp.input=cross",
    "tasks.qqp.head=binary",
    "tasks.qqp.pooling=cls",
    "tasks.qqp.projection=tanh",
    "tasks.sts.pooling=max",
    "training.combine=joint",
    "training.checkpoint_steps=2",
    "training.max_steps=5",
    "training.frozen_baseline=false",
]
every_kind = pytest.mark.parametrize("kind", LAYOUTS)


def arguments(kind, course_files, directory, run, *more):
    return encoder_run.arguments(kind, course_files, directory, run, *CHANGES, *more)


@every_kind
@pytest.mark.slow
def test_a_killed_run_resumes_predicts_and_exports(kind, course_files, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_multitask.main(arguments(kind, course_files, tmp_path, whole)) == 0
    command = arguments(kind, course_files, tmp_path, killed)
    kill_inside("multitask.training.trainer:train_step", "after", 3, command)
    assert not (killed / "report.json").exists()
    assert run_multitask.main([*command, "--resume"]) == 0
    assert results(killed) == results(whole)
    run = load(killed)
    assert set(run.predict("sst", ["a good film"])[0]) >= {"prediction"}
    vectors = run.encode(["a good film", "a bad film that is longer"], task="sts")
    alone = run.encode(["a good film"], task="sts")
    assert np.isfinite(vectors).all() and np.allclose(vectors[0], alone[0], atol=1e-5)
    assert report_of(killed)["tasks"].keys() == {"sst", "qqp", "sts"}
    target = tmp_path / "encoder"
    export = ["export", str(killed), str(target), "--format", "transformers", "--task", "sst"]
    assert run_multitask.main([*export, "--encoder-only"]) == 0
    onnx = ["export", str(killed), str(tmp_path / "onnx"), "--format", "onnx", "--task", "sts"]
    assert run_multitask.main(onnx) == 0


@pytest.mark.parametrize("kind", [kind for kind, row in LAYOUTS.items() if row.classifier])
@pytest.mark.slow
def test_a_classifier_of_transformers(kind, course_files, tmp_path):
    run = tmp_path / "run"
    assert run_multitask.main(arguments(kind, course_files, tmp_path, run)) == 0
    export = ["export", str(run), str(tmp_path / "out"), "--format", "transformers"]
    assert run_multitask.main([*export, "--task", "qqp"]) == 0  # it compares the logits


@every_kind
def test_layers_are_computed_again_or_it_is_refused(kind, course_files, tmp_path, capsys):
    """With dropout: the gradients are those of the usual pass."""
    runs = []
    for again in ("false", "true"):
        run = tmp_path / again
        more = ["training.max_steps=2", f"encoder.gradient_checkpointing={again}"]
        command = arguments(kind, course_files, tmp_path, run, *more)
        if again == "true" and not (LAYOUTS[kind].checkpoints or LAYOUTS[kind].own):
            assert "encoder.gradient_checkpointing" in complaint(capsys, *command)
            return
        assert run_multitask.main(command) == 0
        runs.append(load(run))
    first, second = (dict(run.model.state_dict()) for run in runs)
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, rtol=1e-4, atol=1e-5)


def warned_of(file, *overrides):
    """The tasks whose two views of a text are equal, says the plan."""
    config = load_config(file, list(overrides))
    plan = set_up(config, torch.device("cpu"), lambda line: None)
    return {line.partition(":")[0] for line in plan.warnings if "two views" in line}


@every_kind
def test_two_equal_views_of_a_text_are_said(kind, tmp_path):
    write_triplets(tmp_path)
    write_course_files(tmp_path)
    config = CONFIG.format(
        files=tmp_path,
        encoder=save_tiny_encoder(tmp_path / kind, kind),
        dropout="null",
        data=DATA["single"],
        input="single",
        pooling="mean",
        head="contrastive",
    )
    (tmp_path / "views.yaml").write_text(config)
    none = kind in ("albert", "modernbert", "nomic_bert", "eurobert")
    assert warned_of(tmp_path / "views.yaml") == ({"views"} if none else set())


@pytest.mark.parametrize("kind", ["bert", "albert", "eurobert"])
def test_r_drop_without_dropout_is_said(kind, course_files, tmp_path):
    """A task's own dropout, that of its pooling or of its adapter makes two passes differ."""
    file, *words = encoder_run.arguments(kind, course_files, tmp_path, tmp_path / "run")
    words += ["defaults.r_drop={}", "tasks.sst.dropout=0"]
    every = {"sst", "qqp", "sts"}
    assert warned_of(file, *words) == (set() if kind == "bert" else every)
    # the dropout of a frozen encoder is off, and LoRA has none by default
    frozen = [*words, "defaults.adapter=lora", "stages=[{freeze: [encoder]}]"]
    assert warned_of(file, *frozen) == every
    assert warned_of(file, *frozen, "defaults.adapter={name: lora, dropout: 0.1}") == set()
    assert warned_of(file, *words, "stages=[{freeze: [encoder], tasks: [sst]}, {}]") == (
        {"sst"} if kind == "bert" else every
    )
    words += ["tasks.sst.pooling={name: mha, dropout: 0.1}", "tasks.qqp.dropout=0.1"]
    assert warned_of(file, *words) == (set() if kind == "bert" else every) - {"sst", "qqp"}
    assert not warned_of(file, *words, "tasks.sts.adapter={name: lora, dropout: 0.1}")


@pytest.mark.parametrize("part", ["pooling", "head"])
@every_kind
@pytest.mark.slow
def test_every_pooler_and_head_trains(kind, part, tmp_path, capsys):
    """Choices, joined pairs, tagged words and masked tokens are inputs of heads."""
    layers = {"n_layers" if kind == "distilbert" else "num_hidden_layers": LAYERS}
    encoder = save_tiny_encoder(tmp_path / "encoder", kind, **layers)
    save_tiny_mlm(tmp_path / "generator")
    write_rows(tmp_path)
    (config,) = configs(part).values()
    if load_encoder_and_tokenizer(str(encoder))[0].word_embedding.weight.shape[1] != DIM:
        for task in [name for name in config["tasks"] if "diffcse" in name]:
            del config["tasks"][task]  # its vectors replace embeddings
    file = write_config(tmp_path / "run.yaml", encoder, tmp_path / "generator", config)
    assert run_multitask.main([str(file), f"output_dir={tmp_path / 'run'}"]) == 0
    report = report_of(tmp_path / "run")
    assert report["tasks"].keys() == config["tasks"].keys()
    losses = [event["loss"] for event in events(tmp_path / "run", "step")]
    assert np.isfinite(losses).all()
