"""SMART, learned weights, surgery in complete runs; test_resume.py kills them."""

import inspect
import json
import math

import pytest
import torch

import run_multitask
from multitask.models.encoders.bitlinear import bit_layers
from multitask.models.weights import read_tensors
from multitask.store.run_directory import RunDirectory
from multitask.training import trainer
from tests.support.run_files import events, results

JOINT = (
    "training.combine=joint",
    "training.loss_weighting=uncertainty",
    "training.gradient_surgery=gradvac",
    "training.surgery_every=2",
)
PAIRS = "stages=[{tasks: [sst, qqp], epochs: 1}, {tasks: [qqp, sts], epochs: 3}]"
# scored with the head of another task, never trained
SMART = "defaults.smart={eps: 1e-3, noise: 1e-3, bregman: 1.0}"


def command(overrides, run_dir, *more):
    return ["configs/cs224n.yaml", *overrides, *more, f"output_dir={run_dir}"]


@pytest.fixture
def run(tiny_overrides, tmp_path):
    def run(name, *more):
        directory = tmp_path / name
        assert run_multitask.main(command(tiny_overrides, directory, *more)) == 0
        return directory

    return run


@pytest.mark.slow
def test_what_is_off_equals_the_plain_run_bit_for_bit(run):
    plain = run("plain")
    for name, smart in (("zero", "{weight: 0.0}"), ("never", "{every: 1000, bregman: 1.0}")):
        other = run(name, f"defaults.smart={smart}")
        assert events(other) == events(plain) and results(other) == results(plain)
    smoothed = run("smart", "defaults.smart={eps: 0.1, noise: 0.1, every: 2}")
    steps = events(smoothed, "step")
    for task in ("sst", "qqp", "sts"):
        of_task = [line for line in steps if line["task"] == task]
        assert ["penalty" in line for line in of_task] == [i % 2 == 1 for i in range(len(of_task))]
        assert all(line["penalty"] == line["adversarial"] > 0 for line in of_task[1::2])
        assert not any("bregman" in line for line in of_task)
    assert events(smoothed)[1] == events(plain)[1] and events(smoothed) != events(plain)


def test_the_teacher_follows_every_step_at_the_models_strength(run, monkeypatch):
    """theta~ folded up by hand; lambda of a gradual ternary encoder is the teacher's too."""
    original, strengths, teachers, models = trainer.train_step, [], [], []

    def flat(model):
        return torch.nn.utils.parameters_to_vector(model.parameters()).detach().double()

    def strength(model):
        return {layer.strength for layer in bit_layers(model.encoder).values()}

    def watched(*given, **more):
        named = inspect.signature(original).bind(*given, **more).arguments
        model, teacher = named["model"], named["objective"].teacher
        strengths.append((strength(model), strength(teacher)))
        teachers.append(flat(teacher))
        if not models:
            models.append(flat(model))
        done = original(*given, **more)
        models.append(flat(model))
        return done

    monkeypatch.setattr(trainer, "train_step", watched)
    more = ["encoder.bitlinear={gradual: 0.5}", "training.frozen_baseline=false"]
    run("run", SMART, *more, "training.head_lr=0.05", "training.epochs=4")
    steps, expected = len(teachers), models[0]
    assert steps > 20
    assert (models[3] - models[0]).abs().max() > 1e-2  # times 1 - beta: far above the tolerance
    for number, actual in enumerate(teachers, 1):
        torch.testing.assert_close(actual, expected, rtol=0, atol=5e-6)
        beta = 0.99 if number <= 0.1 * steps else 0.999
        expected = beta * expected + (1 - beta) * models[number]
    assert all(taught == others for taught, others in strengths)
    assert [min(taught) for taught, _ in strengths[:2]] == [0.0, pytest.approx(2 / steps)]


@pytest.mark.parametrize(("combine", "frozen"), [("joint", 3), ("alternate", 6)])
def test_a_stage_with_a_frozen_encoder_has_plain_steps(combine, frozen, run, monkeypatch):
    """Bit for bit: nothing shared has a gradient there. The stage after it has surgery."""
    pytest.importorskip("torchjd")
    stages = f"stages=[{{freeze: [encoder], epochs: 1, combine: {combine}}}, {{epochs: 1}}]"
    settings = [stages, "training.combine=joint", "training.frozen_baseline=false"]
    plain = events(run("plain", *settings))
    original, given = trainer.train_step, []
    monkeypatch.setattr(
        trainer, "train_step", lambda *a, **k: given.append(k["surgery"]) or original(*a, **k)
    )
    operated = events(run("operated", *settings, "training.gradient_surgery=pcgrad"))
    (place,) = [i for i, line in enumerate(plain) if line["event"] == "stage"]
    assert plain[place]["step"] == frozen
    assert [surgery is None for surgery in given] == [i < frozen for i in range(frozen + 3)]
    assert operated[: place + 1] == plain[: place + 1]
    assert operated[place + 1 :] != plain[place + 1 :]


def test_a_stage_begins_without_the_running_cosines_of_the_one_before(run, monkeypatch):
    pytest.importorskip("torchjd")
    step, known = trainer.train_step, []
    monkeypatch.setattr(
        trainer, "train_step", lambda *a, **k: known.append({*k["surgery"].phi}) or step(*a, **k)
    )
    run("run", *JOINT, "training.surgery_every=1", PAIRS, "training.frozen_baseline=false")
    (second,) = [i for i, pairs in enumerate(known) if i and not pairs]
    assert "sst.qqp" in known[second - 1]
    assert known[-1] == {"qqp.qqp", "qqp.sts", "sts.qqp", "sts.sts"}


@pytest.mark.parametrize("combine", ["joint", "alternate"])
def test_a_run_with_learned_weights_is_loaded_and_predicts(combine, run, capsys):
    directory = run("learned", "training.loss_weighting=uncertainty", f"training.combine={combine}")
    step = json.loads((directory / "best.json").read_text())["joint"]
    weights = read_tensors(RunDirectory(directory).weights_of(step))
    learned = [value.item() for name, value in weights.items() if "log_variances" in name]
    assert len(learned) == 3 and all(learned)  # each has left its start, 0
    (logged,) = [e for e in events(directory) if e["event"] == "eval" and e["step"] == step]
    expected = [math.exp(-s) / 2 for s in learned]
    assert sorted(logged["loss_weights"].values()) == pytest.approx(sorted(expected))
    capsys.readouterr()
    assert run_multitask.main(["evaluate", str(directory)]) == 0
    assert "sst" in capsys.readouterr().out
