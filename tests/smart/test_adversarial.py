"""The ascent against a naive loop; the ball holds to the bit; no trace in any gradient."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from multitask.config import SmartConfig
from smart.adversarial import perturbation, project

MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
CASES = [(norm, scope) for norm in ("inf", "l2") for scope in ("sentence", "token")]


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def problem(dtype=torch.float64):
    """x [3, 4, 5] and the squared change of a small network's output."""
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)).to(dtype)
    x = normal(3, 4, 5, dtype=dtype)
    plain = network(x).detach()
    return x, network, lambda moved: ((network(moved) - plain) ** 2).sum()


def norms(delta, norm, scope):
    """The norm of each perturbation, one by one."""
    parts = [s for sentence in delta for s in ([sentence] if scope == "sentence" else sentence)]
    order = float("inf") if norm == "inf" else 2
    return torch.stack([torch.linalg.vector_norm(part.double(), order) for part in parts])


@pytest.mark.parametrize(("norm", "scope"), CASES)
@pytest.mark.parametrize("steps", [1, 3])
def test_ascent_is_algorithm_1(norm, scope, steps):
    x, _, gap = problem()
    ascent = SmartConfig(eps=0.3, noise=0.2, step_size=0.25, steps=steps, norm=norm, scope=scope)
    torch.manual_seed(7)
    result = perturbation(ascent, x, MASK, gap)
    torch.manual_seed(7)
    delta = 0.2 * torch.randn_like(x) * MASK.unsqueeze(-1)  # not within eps before the first step

    def pieces():
        for i in range(3):
            tokens = range(int(MASK[i].sum()))
            yield from (
                ([(i, t) for t in tokens],) if scope == "sentence" else ([(i, t)] for t in tokens)
            )

    def projected(delta):
        out = torch.zeros_like(delta)
        for piece in pieces():
            values = torch.cat([delta[place] for place in piece])
            length = values.abs().max() if norm == "inf" else values.norm()
            for place in piece:
                if norm == "inf":
                    out[place] = delta[place].clamp(-0.3, 0.3)
                else:
                    out[place] = delta[place] * min(1.0, 0.3 / length.item())
        return out

    for _ in range(steps):
        start = delta.clone().requires_grad_()
        gap(x + start).backward()
        moved = delta.clone()
        for piece in pieces():
            gradient = torch.cat([start.grad[place] for place in piece])
            length = gradient.abs().max() if norm == "inf" else gradient.norm()
            for place in piece:
                moved[place] = delta[place] + 0.25 * start.grad[place] / length
        delta = projected(moved)
    torch.testing.assert_close(result, delta, rtol=1e-9, atol=1e-12)


def test_the_direction_is_that_of_finite_differences():
    x, _, gap = problem()
    ascent = SmartConfig(eps=10.0, noise=1e-3, step_size=1.0)
    torch.manual_seed(3)
    result = perturbation(ascent, x, torch.ones(3, 4), gap)
    torch.manual_seed(3)
    start = 1e-3 * torch.randn_like(x)
    slope = torch.zeros_like(x)
    for place in torch.cartesian_prod(*map(torch.arange, x.shape)).tolist():
        step = torch.zeros_like(x)
        step[tuple(place)] = 1e-6
        slope[tuple(place)] = (gap(x + start + step) - gap(x + start - step)) / 2e-6
    slope = slope / slope.abs().amax((1, 2), keepdim=True)
    torch.testing.assert_close(result - start, slope, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("norm", "scope"), CASES)
@given(eps=st.floats(1e-7, 10), size=st.floats(1e-9, 1e3), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_projection_stays_within_eps_to_the_bit(norm, scope, eps, size, seed):
    ascent = SmartConfig(eps=eps, norm=norm, scope=scope)
    delta = project(ascent, size * normal(2, 40, 16, seed=seed, dtype=torch.float32))
    assert norms(delta, norm, scope).max() <= torch.tensor(eps, dtype=torch.float32).double()
    again = project(ascent, delta)
    torch.testing.assert_close(again, delta)


def test_projection_leaves_what_is_inside_alone():
    delta = 0.1 * normal(2, 3, 4)
    for norm, scope in CASES:
        assert torch.equal(project(SmartConfig(eps=10.0, norm=norm, scope=scope), delta), delta)


@pytest.mark.parametrize(("norm", "scope"), CASES)
def test_pads_are_not_perturbed_and_the_gap_grows(norm, scope):
    x, _, gap = problem(torch.float32)
    ascent = SmartConfig(norm=norm, scope=scope, steps=2)
    torch.manual_seed(0)
    result = perturbation(ascent, x, MASK, gap)
    torch.manual_seed(0)
    real = MASK.unsqueeze(-1)
    start = project(ascent, ascent.noise * torch.randn_like(x) * real)  # in the same ball
    assert result[MASK == 0].abs().max() == 0 and result[MASK == 1].any(-1).all()
    assert gap(x + result) > gap(x + start)
    assert norms(result, norm, scope).max() <= torch.tensor(1e-5).double()


def test_the_ascent_leaves_no_gradient_and_no_graph():
    x, network, gap = problem()
    result = perturbation(SmartConfig(), x, MASK, gap)
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not result.requires_grad and result.grad_fn is None


def test_a_flat_function_gives_no_nan():
    x = normal(3, 4, 5)
    result = perturbation(SmartConfig(), x, MASK, lambda moved: 0 * moved.sum())
    assert result.isfinite().all() and result.abs().max() <= 1e-5
