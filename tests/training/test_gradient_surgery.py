"""Gradient surgery: which gradients a method of torchjd gets, and what becomes of its weights.

That its methods are those of the papers is tested in torchjd.
"""

import math
import sys

import numpy as np
import pytest
import torch
from torch import nn

from multitask.config.registry import SURGERY, imported
from multitask.data.collate import separate
from multitask.training import gradient_surgery
from multitask.training.gradient_surgery import Surgery, TaskGradients, cosines
from multitask.training.loss import Objective
from multitask.training.step import train_step
from multitask.utils.errors import NotFinite, UserError
from tests.support.cases import surgery_case
from tests.support.small_models import batch, parted

pytest.importorskip("torchjd", reason="gradient surgery is an extra: pip install 'torchjd[cagrad]'")

TASKS = ("sst", "qqp", "sts")
every_method = pytest.mark.parametrize("name", SURGERY)


def gradients(*rows, **named):
    """A shared part of one vector, with these gradients of tasks by number, and of named ones."""
    rows = {str(task): row for task, row in enumerate(rows)} | named
    shared = nn.Parameter(torch.zeros(len(next(iter(rows.values()))), dtype=torch.float64))
    result = TaskGradients({"all": [shared]})
    for task, row in rows.items():
        result.backward(task, (shared * torch.tensor(row, dtype=torch.float64)).sum())
    return result, shared


def made(name):
    """A method by its name in YAML; the test skips where its packages are not installed."""
    if needed := getattr(surgery_case(name), "NEEDS", None):
        pytest.importorskip(needed)
    return imported(SURGERY[name])()


def pcgrad():
    return Surgery(gradient_surgery.pcgrad())


def test_tasks_that_agree_are_added_up():
    result, shared = gradients((2.0, 1.0), (1.0, 1.0))
    result.combine(pcgrad())
    assert shared.grad.tolist() == [3, 2]


def test_gradvac_goes_on_from_its_saved_state():
    rows = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    unbroken, parts = Surgery(gradient_surgery.gradvac()), Surgery(gradient_surgery.gradvac())
    for keeper in (unbroken, parts):
        torch.manual_seed(0)  # the order of the tasks
        gradients(*rows[0].tolist())[0].combine(keeper)
    resumed = Surgery(gradient_surgery.gradvac())
    resumed.load_state_dict(parts.state_dict())
    result = []
    for keeper in (unbroken, resumed):
        torch.manual_seed(0)
        gradient, shared = gradients(*rows[1].tolist())
        gradient.combine(keeper)
        result.append(shared.grad)
    assert torch.equal(*result)
    assert len(unbroken.phi) == 9 and unbroken.phi == resumed.phi
    assert any(abs(cosine) > 1e-3 for cosine in unbroken.phi.values())


def test_gradvacs_running_cosines_are_of_tasks_and_not_of_places():
    """A pair without one of its tasks for a while is not mistaken for another of as many tasks."""
    generator = torch.Generator().manual_seed(1)
    rows = dict(zip("abc", torch.randn(3, 5, generator=generator).double(), strict=True))

    def cosine(one, other):
        return float(rows[one] @ rows[other] / rows[one].norm() / rows[other].norm())

    keeper, expected = Surgery(gradient_surgery.gradvac(beta=0.5)), {"a.b": 0.0, "b.c": 0.0}
    for pair in ("ab", "bc", "ab"):
        actual, _ = gradients(**{task: rows[task].tolist() for task in pair})
        actual.combine(keeper)
        key = ".".join(pair)
        expected[key] = 0.5 * expected[key] + 0.5 * cosine(*pair)
    assert {key: keeper.phi[key] for key in expected} == pytest.approx(expected)
    keeper.begin_anew()
    assert not keeper.state_dict()


@every_method
def test_each_name_is_the_librarys_aggregator_over_steps(name):
    """Our Gramians and our running cosines give what the library makes of whole gradients."""
    keeper, aggregator = Surgery(made(name)), surgery_case(name).reference()
    generator = torch.Generator().manual_seed(3)
    for step in range(3):
        rows = torch.randn(3, 8, generator=generator, dtype=torch.float64)
        rows[1] += (1.5 if step % 2 else -1.5) * rows[0]
        torch.manual_seed(step)  # the order of the tasks
        expected = aggregator(rows)
        torch.manual_seed(step)
        actual, shared = gradients(*rows.tolist())
        actual.combine(keeper)
        torch.testing.assert_close(shared.grad, expected, rtol=1e-6, atol=1e-7)


class Keep(torch.optim.SGD):
    """Keeps the gradients that a step was taken with."""

    def step(self):
        self.taken = [
            None if p.grad is None else p.grad.clone() for p in self.param_groups[0]["params"]
        ]


def joint(*tasks):
    """One micro-batch with a batch of each task, of all without a name."""
    return [separate({task: batch(task) for task in tasks or TASKS})]


def stepped(model, batches, clip_norm=None, **more):
    optimizer = Keep(model.parameters(), lr=0.1)
    torch.manual_seed(9)
    objective = Objective(dict.fromkeys(TASKS, 1.0))
    train_step(model, batches, optimizer, objective, clip_norm=clip_norm, **more)
    return dict(zip(dict(model.named_parameters()), optimizer.taken, strict=True))


def test_only_the_shared_part_is_operated_on(make):
    model = make().eval()
    batches = joint()
    plain = stepped(model, batches)
    operated = stepped(model, batches, surgery=pcgrad())
    rows = {task: stepped(model, joint(task)) for task in TASKS}
    for name, expected in plain.items():
        if name.startswith("encoder"):
            continue
        if expected is None:
            assert operated[name] is None
        else:
            torch.testing.assert_close(operated[name], expected)
    names = [n for n in plain if n.startswith("encoder")]

    def flat(actual):
        parts = dict(model.named_parameters())
        return torch.cat(
            [
                (torch.zeros_like(parts[n]) if actual[n] is None else actual[n]).flatten()
                for n in names
            ]
        )

    from torchjd.aggregation import PCGrad

    torch.manual_seed(9)  # the order of the tasks
    expected = PCGrad()(torch.stack([flat(rows[task]) for task in TASKS]))
    torch.testing.assert_close(flat(operated), expected, rtol=1e-6, atol=1e-10)


def test_clipping_comes_after_surgery(make):
    model = make().eval()
    batches = joint()
    free = stepped(model, batches, surgery=pcgrad())
    clipped = stepped(model, batches, clip_norm=0.01, surgery=pcgrad())
    known = [name for name, gradient in free.items() if gradient is not None]
    norm = torch.stack([free[name].norm() for name in known]).norm()
    for name in known:
        torch.testing.assert_close(clipped[name], free[name] * 0.01 / norm, rtol=1e-4, atol=1e-12)


def test_gradients_of_one_step_are_gathered_over_its_passes(make):
    model = make().eval()
    pairs = zip(*(parted(batch(task), 1, 3) for task in TASKS), strict=True)
    passes = [separate(dict(zip(TASKS, pair, strict=True))) for pair in pairs]
    at_once = stepped(model, joint(), surgery=pcgrad())
    parts = stepped(model, passes, surgery=pcgrad())
    for name, expected in at_once.items():
        torch.testing.assert_close(parts[name], expected, rtol=1e-6, atol=1e-10)


@every_method
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_is_told_as_in_a_plain_step(name, wrong, make):
    model = make()
    with torch.no_grad():
        model.tasks["sst"].head.linear.weight[0, 0] = wrong
    before = {n: value.clone() for n, value in model.state_dict().items()}
    method = Surgery(made(name))
    told = f"task sst: loss {wrong}, task qqp: .*, gradient norm nan$"
    with pytest.raises(NotFinite, match=told):
        stepped(model, joint(), surgery=method)
    assert not method.state_dict()
    assert all(parameter.grad is None for parameter in model.parameters())
    for n, value in model.state_dict().items():
        torch.testing.assert_close(value, before[n], rtol=0, atol=0, equal_nan=True)


def test_with_one_running_task_surgery_is_a_plain_step(make):
    model = make()
    plain = stepped(model, joint("qqp"))
    operated = stepped(model, joint("qqp"), surgery=Surgery(gradient_surgery.gradvac()))
    for name, expected in plain.items():
        assert (expected is None) == (operated[name] is None)
        assert expected is None or torch.equal(expected, operated[name])


def test_parts_without_a_gradient_keep_none():
    one, other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    result = TaskGradients({"a": [one], "b": [other]})
    result.backward("x", one.sum())
    result.backward("y", (2 * one).sum())
    assert list(result.gramians()) == ["a"]
    result.combine(pcgrad())
    assert other.grad is None and one.grad.tolist() == [3, 3]


def test_without_any_shared_gradient_there_is_nothing_to_combine():
    shared, unshared = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    result = TaskGradients({"all": [shared]})
    for task in ("x", "y"):
        result.backward(task, unshared.sum())
    result.combine(pcgrad())
    assert shared.grad is None and unshared.grad.tolist() == [2, 2, 2]


def test_cosines_of_a_gramian():
    rows = torch.tensor([[3.0, 4.0], [4.0, -3.0], [-3.0, -4.0]])
    expected = torch.tensor([[1.0, 0.0, -1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    torch.testing.assert_close(cosines(rows @ rows.T), expected)
    assert cosines(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))[0, 1].isnan()


@every_method
def test_weights_do_not_depend_on_the_length_of_the_gradients(name):
    gramian = torch.tensor([[2.0, -0.5], [-0.5, 1.0]], dtype=torch.float64)
    result = []
    for scale in (1.0, 1e-9, 1e9):
        torch.manual_seed(0)
        result.append(Surgery(made(name)).weights(scale * gramian, ["sst", "qqp"]))
    assert min(result[0]) > 0
    np.testing.assert_allclose(result[1:], [result[0]] * 2, rtol=1e-3)


def test_a_mean_of_the_gradients_is_brought_to_the_scale_of_their_sum():
    """CAGrad with c = 0 is the mean: a plain step."""
    gramian = torch.tensor([[2.0, -0.5], [-0.5, 1.0]], dtype=torch.float64)
    result = Surgery(gradient_surgery.cagrad(c=0.0), a_mean=True).weights(gramian, ["sst", "qqp"])
    np.testing.assert_allclose(result, [1, 1], rtol=1e-9)


def test_a_task_whose_gradient_is_next_to_nothing_stops_no_other():
    """The library's CAGrad gives weights of zero then: we take the mean, as a plain step."""
    pytest.importorskip("cvxpy")
    keeper = Surgery(gradient_surgery.cagrad(), a_mean=True)
    for other in (1e-5, 0.0):
        result, shared = gradients((3.0, 1.0), (0.0, other))
        result.combine(keeper)
        assert shared.grad.tolist() == pytest.approx([3.0, 1.0 + other])


@pytest.mark.parametrize("name", ["COSINES", "MADE_FOR"])
def test_a_library_that_hides_its_running_cosines_is_refused(name, monkeypatch):
    monkeypatch.setattr(gradient_surgery, name, "_elsewhere")
    with pytest.raises(UserError, match="gradvac: this version of torchjd"):
        gradient_surgery.gradvac()


@pytest.mark.parametrize(("every", "due"), [(1, [0, 1, 2, 3]), (3, [2])])
def test_every(every, due):
    assert [step for step in range(4) if Surgery(None, every).due(step)] == due


@pytest.mark.parametrize(
    ("package", "name"), [("torchjd.aggregation", "pcgrad"), ("cvxpy", "cagrad")]
)
def test_missing_package_is_one_line(package, name, monkeypatch):
    """CAGrad needs one more than the others."""
    for module in [m for m in sys.modules if m.startswith("torchjd.aggregation._cagrad")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match="pip install"):
        getattr(gradient_surgery, name)()
