"""The momentum teacher against a moving average written out by hand."""

import torch
from torch import nn

from smart.teacher import follow, teacher_of


def test_teacher_is_the_moving_average_with_both_betas():
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    teacher = teacher_of(model)
    expected = model.weight.detach().clone()
    for step in range(1, 41):
        with torch.no_grad():
            model.weight.add_(torch.randn_like(model.weight))
        follow(teacher, model, step / 40)
        beta = 0.99 if step <= 4 else 0.999
        expected = beta * expected + (1 - beta) * model.weight.detach()
        torch.testing.assert_close(teacher.weight, expected, rtol=1e-12, atol=0)


def test_teacher_has_the_models_running_statistics():
    """Batch normalisation evaluates with them: at their start values f~ would be another one."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double()
    teacher = teacher_of(model)
    for step in range(1, 4):
        model(torch.randn(8, 3, dtype=torch.float64) + step)
        follow(teacher, model, step / 3)
    assert not torch.equal(teacher[1].running_mean, torch.zeros_like(teacher[1].running_mean))
    for name, value in model[1].named_buffers():
        assert torch.equal(value, teacher[1].get_buffer(name)), name
    rows = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(teacher(rows), model.eval()(rows))


def test_teacher_starts_equal_evaluates_and_takes_no_gradient():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    teacher = teacher_of(model)
    assert torch.equal(teacher[0].weight, model[0].weight)
    assert teacher[0].weight is not model[0].weight
    assert model.training and not any(module.training for module in teacher.modules())
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
