"""One batch of each task, forward and backward, before a training run."""

import pytest
import torch

from multitask.training.describe_plan import dry_run
from multitask.utils.errors import UserError


@pytest.fixture
def plan(planned):
    return planned("tasks.sst.smart={}", "training.loss_weighting=uncertainty")


def test_each_task_takes_a_batch_and_no_weight_moves(plan):
    reached = set()
    for name, parameter in plan.model.named_parameters():
        parameter.register_hook(lambda grad, name=name: reached.add(name.partition(".")[0]))
    before = {name: tensor.clone() for name, tensor in plan.model.state_dict().items()}
    lines = dry_run(plan)
    assert [line.partition(":")[0] for line in lines] == ["sst", "qqp", "sts"]
    assert all("16 rows, loss " in line for line in lines) and dry_run(plan) == lines
    after = plan.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.grad is None for parameter in plan.model.parameters())
    assert {"encoder", "tasks"} <= reached


def test_a_head_that_fails_is_one_line(plan, monkeypatch):
    def broken(scores, labels):
        raise RuntimeError("The size of tensor a (3)\nmust match")

    monkeypatch.setattr(plan.model.head("qqp"), "loss", broken)
    with pytest.raises(UserError, match=r"^task qqp: one batch .* fails: RuntimeError: The size"):
        dry_run(plan)


def test_a_loss_that_is_not_finite_is_one_line(plan):
    with torch.no_grad():
        plan.model.head("sst").linear.bias.fill_(torch.nan)
    with pytest.raises(UserError, match=r"^task sst: the loss of one batch is nan"):
        dry_run(plan)
