"""One optimizer step: the gradient of which sum it follows."""

import math

import pytest
import torch

from multitask.config import load_config
from multitask.data.collate import separate
from multitask.training.loss import Objective
from multitask.training.optimizer import build_optimizer
from multitask.training.step import train_step
from tests.conftest import ROOT
from tests.support.small_models import batch


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
