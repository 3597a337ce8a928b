"""One optimizer step: the gradient of which sum it follows."""

import math
from dataclasses import replace

import pytest
import torch

from multitask.config import load_config
from multitask.data.collate import SharedBatch, separate
from multitask.training.gradient_surgery import Surgery, pcgrad
from multitask.training.loss import Objective
from multitask.training.optimizer import build_optimizer
from multitask.training.step import train_step
from multitask.utils.errors import NotFinite
from tests.conftest import ROOT
from tests.support.small_models import TASKS, WEIGHTS, batch


def test_learned_weights_of_two_tasks_in_a_joint_step(make):
    """sum_i L_i / (2 exp(s_i)) + s_i / 2, by hand; s is not decayed, its rate the head's."""
    more = ["training.loss_weighting=uncertainty", "training.weight_decay=0.5", "encoder.dropout=0"]
    config = load_config(ROOT / "configs" / "cs224n.yaml", more)
    model = make(*more, "tasks.sst.dropout=0", "tasks.qqp.dropout=0")
    optimizer = build_optimizer(model, config.training, {"sst": 1e-3, "qqp": 1e-3})
    start = {"sst": 0.7, "qqp": -0.4}
    with torch.no_grad():
        for task, value in start.items():
            model.log_variances[task].fill_(value)
    result = {}
    step = optimizer.step

    def noted(*given):
        result.update({t: model.log_variances[t].grad.item() for t in start})
        return step(*given)

    optimizer.step = noted
    batches = separate({task: batch(task) for task in start})
    done = train_step(model, [batches], optimizer, Objective(dict.fromkeys(start, 1.0)))
    for task, value in start.items():
        slope = -done.losses[task] / (2 * math.exp(value)) + 0.5
        assert result[task] == pytest.approx(slope)
        # AdamW's first step is the rate times the gradient's sign, without decay
        rate = config.training.head_lr
        moved = value - rate * math.copysign(1, slope)
        assert model.log_variances[task].item() == pytest.approx(moved, rel=1e-4)


# ---- fp16

WITHOUT_DROPOUT = ["encoder.dropout=0", *(f"tasks.{task}.dropout=0" for task in ("sst", "qqp"))]


def trained(make, scaler=None, steps=1, **more):
    """Train the course's tasks, in fp16 with a scaler; return the outcomes.

    A step that is skipped leaves the weights.
    """
    half = torch.float16 if scaler else None
    model = make(*WITHOUT_DROPOUT, dtype=torch.float32, autocast=half).train()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    config = load_config(ROOT / "configs" / "cs224n.yaml")
    optimizer = build_optimizer(model, config.training, dict.fromkeys(TASKS, 1e-3))
    batches = separate({task: batch(task) for task in TASKS})
    objective, outcomes = Objective(WEIGHTS, scaler=scaler), []
    for _ in range(steps):
        done = train_step(model, [batches], optimizer, objective, clip_norm=1.0, **more)
        if done.overflow is not None:
            assert all(map(torch.equal, model.parameters(), before))
        outcomes.append(done)
    return outcomes


def test_fp16_follows_fp32(make):
    halves = trained(make, torch.amp.GradScaler("cpu", init_scale=2.0**10), 4)
    for half, full in zip(halves, trained(make, steps=4), strict=True):
        assert half.losses == pytest.approx(full.losses, rel=0.02)
        assert half.norm == pytest.approx(full.norm, rel=0.05) and half.overflow is None


@pytest.mark.parametrize("surgery", [False, True])
def test_an_overflow_skips_exactly_one_step(make, surgery):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60, backoff_factor=2.0**-50)
    more = {"surgery": Surgery(pcgrad())} if surgery else {}
    first, second = trained(make, scaler, 2, **more)
    assert first.overflow == 2.0**10 and math.isnan(first.norm)
    assert first.losses.keys() == set(TASKS)  # known: they did not overflow
    assert second.overflow is None and math.isfinite(second.norm)


def test_fp16_that_overflows_at_a_scale_below_1_has_diverged(make):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60, backoff_factor=2.0**-61)
    with pytest.raises(NotFinite, match="gradient norm nan"):
        trained(make, scaler)


@pytest.mark.parametrize("fp16", [False, True])
def test_a_loss_that_is_not_finite_leaves_the_weights(make, fp16):
    dtype, scaler = (torch.float16, torch.amp.GradScaler("cpu")) if fp16 else (None, None)
    model = make(dtype=torch.float32, autocast=dtype).train()
    config = load_config(ROOT / "configs" / "cs224n.yaml")
    optimizer = build_optimizer(model, config.training, dict.fromkeys(TASKS, 1e-3))
    weights = {"sst": 1.0, "qqp": float("inf"), "sts": 1.0}
    before = [parameter.detach().clone() for parameter in model.parameters()]
    batches = separate({task: batch(task) for task in TASKS})
    rows = batches[1].tasks["qqp"]
    batches[1] = SharedBatch(batches[1].inputs, {"qqp": replace(rows, share=float("inf"))})
    with pytest.raises(NotFinite, match="task qqp: loss inf"):
        train_step(model, [batches], optimizer, Objective(weights, scaler=scaler))
    assert all(map(torch.equal, model.parameters(), before))
