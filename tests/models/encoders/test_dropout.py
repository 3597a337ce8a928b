"""The share of zeros, the scale and the independence of the CPU's dropout."""

import pytest
import torch

from multitask.models.encoders.dropout import Dropout, dropout, keep_mask

COUNT = 1_000_003  # no multiple of four


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_share_of_rate_is_zero_and_the_rest_scaled_to_mean_one(rate, dtype):
    torch.manual_seed(0)
    mask = keep_mask(torch.Size([COUNT]), rate, dtype).double()
    spread = (rate * (1 - rate) / COUNT) ** 0.5
    assert abs((mask == 0).double().mean() - rate) < 4 * spread + 2**-17
    (scale,) = set(mask[mask != 0].tolist())
    assert scale == pytest.approx(1 / (1 - rate), rel=2**-8 if dtype == torch.bfloat16 else 2**-13)


def test_neighbours_are_independent():
    """Four elements come from one 64-bit number: no two of them may go together."""
    torch.manual_seed(0)
    zero = (keep_mask(torch.Size([COUNT]), 0.5, torch.float64) == 0).double()
    for lag in (1, 2, 3, 4, 8):
        together = torch.corrcoef(torch.stack([zero[:-lag], zero[lag:]]))[0, 1]
        assert abs(together) < 4 / COUNT**0.5
    for lane in range(4):
        assert abs(zero[lane::4].mean() - 0.5) < 4 * 0.5 / (COUNT / 4) ** 0.5


def test_draws_follow_the_seed_and_differ_from_one_another():
    torch.manual_seed(3)
    first, second = (keep_mask(torch.Size([50, 7]), 0.5, torch.float32) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(keep_mask(torch.Size([50, 7]), 0.5, torch.float32), first)
    assert not torch.equal(first, second)


def test_the_gradient_passes_where_the_value_did():
    torch.manual_seed(0)
    x = torch.randn(20, 30, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    assert torch.equal(x.grad == 0, y == 0)
    torch.testing.assert_close(y, x * x.grad)


def test_nothing_happens_at_rate_zero_or_in_evaluation():
    x = torch.randn(5)
    assert dropout(x, 0.0) is x
    assert Dropout(0.5).eval()(x) is x
    assert not torch.equal(Dropout(0.5).train()(x), x)
