"""The counters of a run, and the stages that follow one another."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from multitask.training.progress import Progress, Stages
from multitask.training.step import Stepped

CPU = torch.device("cpu")


def test_a_step_counts_for_those_that_trained_and_those_left_out():
    progress = Progress(CPU)
    progress.count(["a", "b"], Stepped(losses={"a": 1.0}, sequences=8))
    progress.count(["b"], Stepped())
    progress.count(["a"], Stepped(losses={"a": 1.0}, sequences=4))
    assert (progress.step, progress.sentences) == (3, 12)
    assert progress.trained == {"a": 2} and progress.skipped == {"b": 2}


def test_time_goes_on_where_the_session_before_ended():
    progress = Progress(CPU, step=3, evaluated_at=2, seconds=1.5, earlier_seconds=100.0)
    progress.trained["a"] = 3
    saved = progress.state_dict()
    assert 100 <= saved["wall_seconds"] < 110
    resumed = Progress(CPU)
    resumed.load_state_dict(saved)
    assert saved["wall_seconds"] <= resumed.wall_seconds() < saved["wall_seconds"] + 10
    begun = Progress(CPU, began=resumed.began - 50)  # the command began 50 seconds before
    begun.load_state_dict(saved)
    assert begun.wall_seconds() >= saved["wall_seconds"] + 50
    counters = {key: value for key, value in resumed.state_dict().items() if key != "wall_seconds"}
    assert counters == {key: value for key, value in saved.items() if key != "wall_seconds"}
    resumed.count(["a"], Stepped(losses={"a": 1.0}))
    assert resumed.trained == {"a": 4} and saved["trained"] == {"a": 3}


class FakeStage:
    """A stage of so many steps on a linear layer; its optimizer has momentum."""

    def __init__(self, steps, steps_per_epoch, lr):
        self.steps, self.lr = steps, lr
        self.sampler = SimpleNamespace(steps_per_epoch=steps_per_epoch)
        self.begun = 0

    def begin(self, model):
        self.begun += 1
        optimizer = torch.optim.SGD(model.parameters(), lr=self.lr, momentum=0.9)
        return optimizer, LambdaLR(optimizer, lambda step: 1 - step / self.steps)


def planned():
    return [FakeStage(4, 2, 0.1), FakeStage(9, 3, 0.01)]


def move(stages, model):
    model.weight.sum().backward()
    stages.optimizer.step()
    stages.scheduler.step()
    stages.optimizer.zero_grad()


def test_each_stage_has_a_new_optimizer():
    stages = Stages(planned(), nn.Linear(2, 2))
    assert (stages.total_steps, stages.total_epochs) == (13, 5.0)
    assert not stages.is_last and stages.steps_done(3) == 3 and stages.epoch(3) == 1.5
    first = stages.optimizer
    stages.next(4)
    assert stages.is_last and stages.optimizer is not first
    assert stages.steps_done(7) == 3 and stages.epoch(7) == 2 + 1
    assert stages.optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


def test_a_stage_goes_on_with_its_momentum_and_schedule():
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    stages = Stages(planned(), model)
    for step in range(6):
        if step == 4:
            stages.next(4)
        move(stages, model)
    saved, weights = copy.deepcopy((stages.state_dict(), model.state_dict()))  # as on disk
    expected = []
    for _ in range(3):
        move(stages, model)
        expected.append(model.weight.detach().clone())
    model.load_state_dict(weights)
    resumed = Stages(planned(), model)
    resumed.load_state_dict(saved)
    assert (resumed.index, resumed.steps_done(6), resumed.epoch(6)) == (1, 2, 2 + 2 / 3)
    for weight in expected:
        move(resumed, model)
        assert torch.equal(model.weight, weight)
