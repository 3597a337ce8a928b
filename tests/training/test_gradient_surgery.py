"""Gradient surgery: two tasks by hand, the papers' pseudocode, only the shared part."""

import math
import sys

import numpy as np
import pytest
import torch
from torch import nn

from multitask.data.collate import separate
from multitask.training import gradient_surgery as surgery
from multitask.training.gradient_surgery import Surgery, TaskGradients, cosines
from multitask.training.loss import Objective
from multitask.training.step import train_step
from multitask.utils.errors import NotFinite, UserError
from tests.support.small_models import batch, parted

pytest.importorskip("torchjd", reason="gradient surgery is an extra: pip install 'torchjd[cagrad]'")

TASKS = ("sst", "qqp", "sts")
every_method = pytest.mark.parametrize(
    "name", ["pcgrad", "gradvac", "cagrad", "mgda", "aligned_mtl"]
)


def gradients(*rows, **named):
    """A shared part of one vector, with these gradients of tasks by number, and of named ones."""
    rows = {str(task): row for task, row in enumerate(rows)} | named
    shared = nn.Parameter(torch.zeros(len(next(iter(rows.values()))), dtype=torch.float64))
    found = TaskGradients({"all": [shared]})
    for task, row in rows.items():
        found.backward(task, (shared * torch.tensor(row, dtype=torch.float64)).sum())
    return found, shared


def made(name):
    """A method by its name in YAML; the test skips where its packages are not installed."""
    if name == "cagrad":
        pytest.importorskip("cvxpy")
    return getattr(surgery, name)()


def combined(weighting, *rows):
    found, shared = gradients(*rows)
    found.combine(Surgery(weighting))
    return shared.grad


def test_pcgrad_of_two_conflicting_tasks_by_hand():
    # g1.g2 = -2; g1 - (-2/4) g2 = (1, 0) + (-.5, .87) ...; each loses what points against the other
    found = combined(surgery.pcgrad(), (2.0, 0.0), (-1.0, math.sqrt(3)))
    one = torch.tensor([2.0, 0.0]) + 2 / 4 * torch.tensor([-1.0, math.sqrt(3)])
    other = torch.tensor([-1.0, math.sqrt(3)]) + 2 / 4 * torch.tensor([2.0, 0.0])
    torch.testing.assert_close(found, (one + other).double(), rtol=1e-6, atol=1e-7)


def test_tasks_that_agree_are_added_up():
    assert combined(surgery.pcgrad(), (2.0, 1.0), (1.0, 1.0)).tolist() == [3, 2]


def pcgrad_pseudocode(rows, orders):
    """Yu et al. 2020, Algorithm 1."""
    changed = [row.clone() for row in rows]
    for i, order in enumerate(orders):
        for j in order:
            if j != i and (dot := changed[i] @ rows[j]) < 0:
                changed[i] = changed[i] - dot / (rows[j] @ rows[j]) * rows[j]
    return sum(changed)


def test_pcgrad_is_algorithm_1_for_three_tasks():
    rows = torch.randn(3, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    rows[1] -= 1.5 * rows[0]
    torch.manual_seed(2)
    found = combined(surgery.pcgrad(), *rows.tolist())
    torch.manual_seed(2)
    orders = [torch.randperm(3).tolist() for _ in range(3)]
    torch.testing.assert_close(found, pcgrad_pseudocode(rows, orders))


def test_gradvac_lifts_the_cosine_to_its_running_mean_by_hand():
    vaccine = surgery.gradvac(beta=0.5)
    keeper = Surgery(vaccine)
    first = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)  # cosine .6, target 0
    found, shared = gradients(*first.tolist())
    found.combine(keeper)
    torch.testing.assert_close(shared.grad, first.sum(0))
    assert keeper.phi["0.1"] == pytest.approx(0.3)  # (1 - .5) 0 + .5 .6
    second = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)  # cosine 0 < .3
    found, shared = gradients(*second.tolist())
    found.combine(keeper)
    expected = torch.zeros(2, dtype=torch.float64)
    for i, j in ((0, 1), (1, 0)):
        one, other = second[i], second[j]
        phi, hat = 0.0, 0.3
        scale = one.norm() * (hat * math.sqrt(1 - phi**2) - phi * math.sqrt(1 - hat**2))
        lifted = one + other * scale / (other.norm() * math.sqrt(1 - hat**2))
        assert lifted @ other / lifted.norm() / other.norm() == pytest.approx(0.3)
        expected += lifted
    torch.testing.assert_close(shared.grad, expected, rtol=1e-6, atol=0)


def gradvac_pseudocode(rows, beta, orders, phi):
    """Wang et al. 2021, Algorithm 1: g_i as it is by then, each g_j as it was; ``phi`` follows."""
    changed = [row.clone() for row in rows]
    for i, order in enumerate(orders):
        for j in ([k for k in range(len(rows)) if k != i][place] for place in order):
            cosine = changed[i] @ rows[j] / changed[i].norm() / rows[j].norm()
            if cosine < phi[i, j]:
                lift = phi[i, j] * (1 - cosine**2).sqrt() - cosine * (1 - phi[i, j] ** 2).sqrt()
                lift = changed[i].norm() * lift / (rows[j].norm() * (1 - phi[i, j] ** 2).sqrt())
                changed[i] = changed[i] + lift * rows[j]
            phi[i, j] = (1 - beta) * phi[i, j] + beta * cosine
    return sum(changed)


def test_gradvac_is_algorithm_1_for_three_tasks_over_steps():
    generator = torch.Generator().manual_seed(4)
    keeper, phi = Surgery(surgery.gradvac(beta=0.3)), torch.zeros(3, 3, dtype=torch.float64)
    for step in range(4):
        rows = torch.randn(3, 6, generator=generator, dtype=torch.float64)
        rows[1] += (1.5 if step % 2 else -1.5) * rows[0]
        torch.manual_seed(step)
        found, shared = gradients(*rows.tolist())
        found.combine(keeper)
        torch.manual_seed(step)
        orders = [torch.randperm(2).tolist() for _ in range(3)]  # as the library draws them
        expected = gradvac_pseudocode(rows, 0.3, orders, phi)
        torch.testing.assert_close(shared.grad, expected, rtol=1e-6, atol=1e-7)
        known = {f"{i}.{j}": phi[i, j].item() for i in range(3) for j in range(3) if i != j}
        assert {pair: keeper.phi[pair] for pair in known} == pytest.approx(known, rel=1e-5)


def test_gradvac_goes_on_from_its_saved_state():
    rows = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    whole, parts = Surgery(surgery.gradvac()), Surgery(surgery.gradvac())
    for keeper in (whole, parts):
        torch.manual_seed(0)  # the order of the tasks
        gradients(*rows[0].tolist())[0].combine(keeper)
    resumed = Surgery(surgery.gradvac())
    resumed.load_state_dict(parts.state_dict())
    found = []
    for keeper in (whole, resumed):
        torch.manual_seed(0)
        own, shared = gradients(*rows[1].tolist())
        own.combine(keeper)
        found.append(shared.grad)
    assert torch.equal(*found)
    assert len(whole.phi) == 9 and whole.phi == resumed.phi
    assert any(abs(cosine) > 1e-3 for cosine in whole.phi.values())


def test_gradvacs_running_cosines_are_of_tasks_and_not_of_places():
    """A pair without one of its tasks for a while is not mistaken for another of as many tasks."""
    generator = torch.Generator().manual_seed(1)
    rows = dict(zip("abc", torch.randn(3, 5, generator=generator).double(), strict=True))

    def cosine(one, other):
        return float(rows[one] @ rows[other] / rows[one].norm() / rows[other].norm())

    keeper, expected = Surgery(surgery.gradvac(beta=0.5)), {"a.b": 0.0, "b.c": 0.0}
    for pair in ("ab", "bc", "ab"):
        found, _ = gradients(**{task: rows[task].tolist() for task in pair})
        found.combine(keeper)
        key = ".".join(pair)
        expected[key] = 0.5 * expected[key] + 0.5 * cosine(*pair)
    assert {key: keeper.phi[key] for key in expected} == pytest.approx(expected)
    keeper.begin_anew()
    assert not keeper.state_dict()


PAIRS = {
    "conflict": [(2.0, 0.5, 0.0), (-1.0, 1.0, 0.5)],
    "agreement": [(2.0, 1.0, 0.0), (1.0, 1.5, 0.3)],
    "one within the other": [(0.5, 0.2, 0.0), (3.0, 1.0, 0.5)],
    "opposite": [(1.0, 0.0, 0.0), (-3.0, 0.0, 0.1)],
}
every_pair = pytest.mark.parametrize("rows", PAIRS.values(), ids=PAIRS)


@every_pair
def test_mgda_of_two_tasks_is_the_shortest_point_of_their_segment(rows):
    """Sener & Koltun 2018, equation (4): the t in [0, 1] with the shortest t g1 + (1 - t) g2.

    t = (g2 - g1).g2 / |g1 - g2|^2, clipped.
    """
    one, other = np.array(rows)
    t = np.clip((other - one) @ other / ((one - other) @ (one - other)), 0, 1)
    found = combined(surgery.mgda(), *rows)
    np.testing.assert_allclose(found, t * one + (1 - t) * other, rtol=1e-12, atol=1e-12)


def lowest(function):
    """Where a convex function of [0, 1] is lowest: a grid, four times finer round its best."""
    low, high = 0.0, 1.0
    for _ in range(4):
        grid = np.linspace(low, high, 1001)
        best = int(np.argmin([function(t) for t in grid]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 1000)]
    return grid[best]


@every_pair
@pytest.mark.parametrize("c", [0.0, 0.4, 0.9])
def test_cagrad_of_two_tasks_by_a_grid_over_its_dual(rows, c):
    """Liu et al. 2021, Algorithm 1: d = g0 + sqrt(phi) g_w / |g_w| with phi = c^2 |g0|^2.

    w = (t, 1 - t) minimises g_w.g0 + sqrt(phi) |g_w|; g0 is the mean gradient.
    """
    pytest.importorskip("cvxpy")
    one, other = np.array(rows)
    mean = (one + other) / 2
    reach = c * np.linalg.norm(mean)

    def dual(t):
        mixed = t * one + (1 - t) * other
        return mixed @ mean + reach * np.linalg.norm(mixed)

    t = lowest(dual)
    mixed = t * one + (1 - t) * other
    expected = mean + reach * mixed / np.linalg.norm(mixed)
    found = combined(surgery.cagrad(c), *rows)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "rows",
    [*PAIRS.values(), [*PAIRS["conflict"], (0.3, -2.0, 1.0)], [(1.0, 2.0, 0.0), (2.0, 4.0, 0.0)]],
    ids=[*PAIRS, "three", "parallel"],
)
def test_aligned_mtl_is_algorithm_1(rows):
    """Senushkin et al. 2023, Algorithm 1, G's rows the gradients: M = G G^T = V diag(l) V^T.

    B = sqrt(l_R) V diag(1 / sqrt(l)) V^T over the R eigenvalues above 0, l_R the smallest of them;
    d = sum_i (B w)_i g_i with w_i = 1 / tasks. The rows of B G have R equal singular values.
    """
    matrix = np.array(rows)
    values, vectors = np.linalg.eigh(matrix @ matrix.T)
    kept = values > 1e-9
    values, vectors = values[kept], vectors[:, kept]
    balance = np.sqrt(values.min()) * vectors @ np.diag(values**-0.5) @ vectors.T
    lengths = np.linalg.svd(balance @ matrix, compute_uv=False)[: len(values)]
    np.testing.assert_allclose(lengths, np.sqrt(values.min()), rtol=1e-9)
    weights = balance @ np.full(len(rows), 1 / len(rows))
    found = combined(surgery.aligned_mtl(), *rows)
    np.testing.assert_allclose(found, weights @ matrix, rtol=1e-9, atol=1e-12)


@every_method
def test_parity_with_the_librarys_aggregator(name):
    import torchjd.aggregation as library

    rows = torch.randn(3, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    aggregators = {
        "pcgrad": library.PCGrad,
        "gradvac": lambda: library.GradVac(beta=0.01),
        "cagrad": lambda: library.CAGrad(c=0.4),
        "mgda": library.MGDA,
        "aligned_mtl": library.AlignedMTL,
    }
    weighting = made(name)
    torch.manual_seed(0)
    expected = aggregators[name]()(rows)
    torch.manual_seed(0)
    found = combined(weighting, *rows.tolist())
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


class Keep(torch.optim.SGD):
    """Keeps the gradients that a step was taken with."""

    def step(self):
        self.taken = [
            None if p.grad is None else p.grad.clone() for p in self.param_groups[0]["params"]
        ]


def stepped(model, batches, clip_norm=None, **more):
    optimizer = Keep(model.parameters(), lr=0.1)
    torch.manual_seed(9)
    objective = Objective(dict.fromkeys(TASKS, 1.0))
    train_step(model, batches, optimizer, objective, clip_norm=clip_norm, **more)
    return dict(zip(dict(model.named_parameters()), optimizer.taken, strict=True))


def test_only_the_shared_part_is_operated_on(make):
    model = make().eval()
    batches = [separate({task: batch(task) for task in TASKS})]
    plain = stepped(model, batches)
    operated = stepped(model, batches, surgery=Surgery(surgery.pcgrad()))
    rows = {task: stepped(model, [separate({task: batch(task)})]) for task in TASKS}
    for name, expected in plain.items():
        if name.startswith("encoder"):
            continue
        if expected is None:
            assert operated[name] is None
        else:
            torch.testing.assert_close(operated[name], expected)
    names = [n for n in plain if n.startswith("encoder")]

    def flat(found):
        parts = dict(model.named_parameters())
        return torch.cat(
            [
                (torch.zeros_like(parts[n]) if found[n] is None else found[n]).flatten()
                for n in names
            ]
        )

    torch.manual_seed(9)
    orders = [torch.randperm(3).tolist() for _ in range(3)]
    expected = pcgrad_pseudocode(torch.stack([flat(rows[task]) for task in TASKS]), orders)
    torch.testing.assert_close(flat(operated), expected, rtol=1e-6, atol=1e-10)


def test_clipping_comes_after_surgery(make):
    model = make().eval()
    batches = [separate({task: batch(task) for task in TASKS})]
    free = stepped(model, batches, surgery=Surgery(surgery.pcgrad()))
    clipped = stepped(model, batches, clip_norm=0.01, surgery=Surgery(surgery.pcgrad()))
    known = [name for name, gradient in free.items() if gradient is not None]
    norm = torch.stack([free[name].norm() for name in known]).norm()
    for name in known:
        torch.testing.assert_close(clipped[name], free[name] * 0.01 / norm, rtol=1e-4, atol=1e-12)


def test_gradients_of_one_step_are_gathered_over_its_passes(make):
    model = make().eval()
    pairs = zip(*(parted(batch(task), 1, 3) for task in TASKS), strict=True)
    passes = [separate(dict(zip(TASKS, pair, strict=True))) for pair in pairs]
    whole = stepped(
        model, [separate({t: batch(t) for t in TASKS})], surgery=Surgery(surgery.pcgrad())
    )
    parts = stepped(model, passes, surgery=Surgery(surgery.pcgrad()))
    for name, expected in whole.items():
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
        stepped(model, [separate({task: batch(task) for task in TASKS})], surgery=method)
    assert not method.state_dict()
    assert all(parameter.grad is None for parameter in model.parameters())
    for n, value in model.state_dict().items():
        torch.testing.assert_close(value, before[n], rtol=0, atol=0, equal_nan=True)


def test_with_one_running_task_surgery_is_a_plain_step(make):
    model = make()
    plain = stepped(model, [separate({"qqp": batch("qqp")})])
    operated = stepped(model, [separate({"qqp": batch("qqp")})], surgery=Surgery(surgery.gradvac()))
    for name, expected in plain.items():
        assert (expected is None) == (operated[name] is None)
        assert expected is None or torch.equal(expected, operated[name])


def test_parts_without_a_gradient_keep_none():
    one, other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    found = TaskGradients({"a": [one], "b": [other]})
    found.backward("x", one.sum())
    found.backward("y", (2 * one).sum())
    assert list(found.gramians()) == ["a"]
    found.combine(Surgery(surgery.pcgrad()))
    assert other.grad is None and one.grad.tolist() == [3, 3]


def test_without_any_shared_gradient_there_is_nothing_to_combine():
    shared, own = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    found = TaskGradients({"all": [shared]})
    for task in ("x", "y"):
        found.backward(task, own.sum())
    found.combine(Surgery(surgery.pcgrad()))
    assert shared.grad is None and own.grad.tolist() == [2, 2, 2]


def test_cosines_of_a_gramian():
    rows = torch.tensor([[3.0, 4.0], [4.0, -3.0], [-3.0, -4.0]])
    expected = torch.tensor([[1.0, 0.0, -1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    torch.testing.assert_close(cosines(rows @ rows.T), expected)
    assert cosines(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))[0, 1].isnan()


@every_method
def test_weights_do_not_depend_on_the_length_of_the_gradients(name):
    gramian = torch.tensor([[2.0, -0.5], [-0.5, 1.0]], dtype=torch.float64)
    found = []
    for scale in (1.0, 1e-9, 1e9):
        torch.manual_seed(0)
        found.append(Surgery(made(name)).weights(scale * gramian, ["sst", "qqp"]))
    assert min(found[0]) > 0
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-3)


def test_a_mean_of_the_gradients_is_brought_to_the_scale_of_their_sum():
    """CAGrad with c = 0 is the mean: a plain step."""
    gramian = torch.tensor([[2.0, -0.5], [-0.5, 1.0]], dtype=torch.float64)
    found = Surgery(surgery.cagrad(c=0.0), a_mean=True).weights(gramian, ["sst", "qqp"])
    np.testing.assert_allclose(found, [1, 1], rtol=1e-9)


def test_a_task_whose_gradient_is_next_to_nothing_stops_no_other():
    """The library's CAGrad gives weights of zero then: we take the mean, as a plain step."""
    pytest.importorskip("cvxpy")
    keeper = Surgery(surgery.cagrad(), a_mean=True)
    for other in (1e-5, 0.0):
        found, shared = gradients((3.0, 1.0), (0.0, other))
        found.combine(keeper)
        assert shared.grad.tolist() == pytest.approx([3.0, 1.0 + other])


@pytest.mark.parametrize("name", ["COSINES", "MADE_FOR"])
def test_a_library_that_hides_its_running_cosines_is_refused(name, monkeypatch):
    monkeypatch.setattr(surgery, name, "_elsewhere")
    with pytest.raises(UserError, match="gradvac: this version of torchjd"):
        surgery.gradvac()


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
        getattr(surgery, name)()
