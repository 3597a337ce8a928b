"""AdamW's parameter groups and the learning rate of every step."""

import math

import pytest
import torch
from torch import nn
from transformers import get_polynomial_decay_schedule_with_warmup

from multitask.config import load_config
from multitask.config.registry import build
from multitask.models.encoders.hf import encoder_from_pretrained
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.task_module import TaskModule
from multitask.training.optimizer import build_optimizer, build_scheduler, encoder_rate
from tests.conftest import ROOT

TASKS = ("sst", "qqp", "sts")
LR, HEAD_LR, QQP_LR = 3e-5, 2e-3, 7e-4


HEAD_LRS = {"sst": HEAD_LR, "qqp": QQP_LR, "sts": HEAD_LR}


@pytest.fixture
def make(tiny_overrides, tiny_encoder):
    """A config and a model whose parameters are named apart by their task."""

    def make(*changes, frozen=()):
        given = (f"training.lr={LR}", f"training.head_lr={HEAD_LR}", f"tasks.qqp.head_lr={QQP_LR}")
        config = load_config(ROOT / "configs/cs224n.yaml", [*tiny_overrides, *given, *changes])
        encoder = encoder_from_pretrained(str(tiny_encoder))
        tasks = {
            name: TaskModule(
                nn.LayerNorm(encoder.dim),  # a pooler with parameters
                build("projection", "tanh", {}, {"dim": encoder.dim}),
                build("head", "binary", {}, {"dim": encoder.dim}),
                dropout=0.1,
            )
            for name in TASKS
        }
        model = MultiTaskModel(encoder, tasks)
        model.freeze(frozen)
        return config.training, model

    return make


def decays(name):
    """Return True for a parameter with weight decay: no bias, no LayerNorm."""
    return not (name.endswith("bias") or "LayerNorm" in name or ".pooler." in name)


def grouped(optimizer):
    """The group of every parameter, by id; none is in two."""
    result = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            assert id(parameter) not in result
            result[id(parameter)] = group
    return result


@pytest.mark.parametrize("freeze", [False, True])
def test_every_trained_parameter_is_in_the_right_group_once(make, freeze):
    encoder = {"embeddings", "layer_1", "layer_2"}
    config, model = make("training.weight_decay=0.3", frozen=encoder if freeze else ())
    groups = grouped(build_optimizer(model, config, HEAD_LRS))
    rates = {"encoder": LR, **HEAD_LRS}
    for name, parameter in model.named_parameters():
        owner = name.split(".")[0 if name.startswith("encoder") else 1]
        if freeze and owner == "encoder":
            assert id(parameter) not in groups, name
            continue
        group = groups.pop(id(parameter))
        assert group["name"] == owner, name
        assert group["lr"] == rates[owner], name
        assert group["weight_decay"] == (0.3 if decays(name) else 0.0), name
    assert not groups


def test_adamw_is_as_configured(make):
    config, model = make("training.betas=[0.8, 0.95]", "training.eps=1.0e-7")
    optimizer = build_optimizer(model, config, HEAD_LRS)
    assert type(optimizer) is torch.optim.AdamW
    for group in optimizer.param_groups:
        assert (*group["betas"], group["eps"], group["fused"]) == (0.8, 0.95, 1e-7, True)
        assert not group["amsgrad"] and not group["maximize"]


def test_decay_is_not_applied_to_biases_and_layer_norms(make):
    """One step with zero gradients moves what decays, by lr times decay, and nothing else."""
    config, model = make("training.weight_decay=0.3", "training.clip_norm=null")
    optimizer = build_optimizer(model, config, HEAD_LRS)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        rate = LR if name.startswith("encoder") else QQP_LR if ".qqp." in name else HEAD_LR
        expected = before[name] * (1 - (0.3 * rate if decays(name) else 0.0))
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-6, atol=0, msg=name)


# `part`: the share of the steps after the warm-up that is done
SHAPES = {
    "constant": lambda part: 1.0,
    "linear": lambda part: 1 - part,
    "cosine": lambda part: 0.5 * (1 + math.cos(math.pi * part)),
    # power 1 down to a ten-thousandth, the constants of `transformers`
    "polynomial": lambda part: 1 - part + 1e-4 * part,
}


@pytest.mark.parametrize("schedule", SHAPES)
@pytest.mark.parametrize(("warmup", "steps"), [(0.0, 7), (0.1, 30), (0.5, 9)])
def test_schedules_equal_their_formulas_at_every_step(make, schedule, warmup, steps):
    config, model = make(f"training.schedule={schedule}", f"training.warmup={warmup}")
    optimizer = build_optimizer(model, config, HEAD_LRS)
    scheduler = build_scheduler(optimizer, config, steps)
    rising = round(warmup * steps)
    rates = {"encoder": LR, **HEAD_LRS}
    for step in range(steps + 1):
        part = (step - rising) / (steps - rising)
        factor = step / rising if step < rising else SHAPES[schedule](part)
        for group in optimizer.param_groups:
            assert group["lr"] == pytest.approx(rates[group["name"]] * factor, rel=1e-9, abs=1e-15)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("power", [1.0, 0.5, 2.0])
def test_the_polynomial_schedule_equals_that_of_transformers(make, power):
    config, model = make(
        "training.schedule=polynomial",
        "training.warmup=0.2",
        *([] if power == 1 else [f"training.schedule_power={power}"]),
    )
    ours, theirs = (build_optimizer(model, config, HEAD_LRS) for _ in range(2))
    scheduler = build_scheduler(ours, config, 20)
    expected = get_polynomial_decay_schedule_with_warmup(theirs, 4, 20, power=power)
    for _ in range(21):
        assert [g["lr"] for g in ours.param_groups] == [g["lr"] for g in theirs.param_groups]
        for part in (ours, theirs, scheduler, expected):
            part.step()


@pytest.mark.parametrize("schedule", SHAPES)
def test_the_schedule_goes_on_from_its_state(make, schedule):
    config, model = make(f"training.schedule={schedule}", "training.warmup=0.2")
    rates = []
    for restart in (None, 7):
        optimizer = build_optimizer(model, config, HEAD_LRS)
        scheduler = build_scheduler(optimizer, config, 20)
        for step in range(20):
            if step == restart:
                states = optimizer.state_dict(), scheduler.state_dict()
                optimizer = build_optimizer(model, config, HEAD_LRS)
                scheduler = build_scheduler(optimizer, config, 20)
                optimizer.load_state_dict(states[0])
                scheduler.load_state_dict(states[1])
            optimizer.step()
            scheduler.step()
            rates.append([group["lr"] for group in optimizer.param_groups])
    assert rates[:20] == rates[20:]


def test_the_logged_rate_is_that_of_the_highest_layer_that_trains():
    rates = {"embeddings": 1e-5, "layer_1": 2e-5, "sst": 1e-2, "layers": 1.0}
    assert encoder_rate(rates) == 2e-5
    assert encoder_rate(rates | {"encoder": 4e-5}) == 4e-5
    assert encoder_rate({"sst": 1e-2}) == 0


def test_layer_decay_lowers_the_rate_from_layer_to_layer(make):
    """The last layer has lr, the embeddings lr * decay^L; heads and decay groups as without it."""
    config, model = make("training.layer_decay=0.5", "training.weight_decay=0.3")
    groups = grouped(build_optimizer(model, config, HEAD_LRS))
    rates = {"embeddings": LR / 4, "layer.0.": LR / 2, "layer.1.": LR, "tasks.qqp": QQP_LR}
    rates |= {"tasks.sst": HEAD_LR, "tasks.sts": HEAD_LR}
    for name, parameter in model.named_parameters():
        (rate,) = [rate for part, rate in rates.items() if part in name]
        group = groups.pop(id(parameter))
        assert group["lr"] == pytest.approx(rate), name
        assert group["weight_decay"] == (0.3 if decays(name) else 0.0), name
    assert not groups
    top = [g for g in build_optimizer(model, config, HEAD_LRS).param_groups if g["lr"] == LR]
    assert {group["name"] for group in top} == {"encoder"}  # the rate that the log shows


def test_a_shared_module_is_in_one_group(make, tiny_encoder):
    config, model = make()
    shared = MultiTaskModel(model.encoder, {"sst": model.tasks["sst"]}, owners={"more": "sst"})
    for rates in ({"more": 0.5, "sst": 0.25}, {"sst": 0.25, "more": 0.5}):
        groups = build_optimizer(shared, config, rates).param_groups
        assert {g["name"]: g["lr"] for g in groups} == {"encoder": LR, "sst": 0.25}
    alone = build_optimizer(shared, config, {"more": 0.5}).param_groups
    assert {g["name"]: g["lr"] for g in alone} == {"encoder": LR, "sst": 0.5}
