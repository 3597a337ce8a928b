"""l_s against scipy and hand-written sums; precision where SMART works."""

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from scipy.stats import entropy

from smart.divergence import DIVERGENCES, squared_error, symmetric_bernoulli_kl, symmetric_kl


def logits(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_symmetric_kl_is_both_kullback_leibler_divergences():
    one, other = logits(7, 5), logits(7, 5, seed=1)
    p, q = softmax(one.numpy(), -1), softmax(other.numpy(), -1)
    expected = entropy(p, q, axis=-1) + entropy(q, p, axis=-1)
    np.testing.assert_allclose(symmetric_kl(one, other), expected, rtol=1e-12)


def test_one_logit_is_the_two_class_case_and_not_zero():
    one, other = logits(9), logits(9, seed=1)
    p, q = expit(one.numpy()), expit(other.numpy())
    two = [np.stack([1 - x, x], -1) for x in (p, q)]
    expected = entropy(*two, axis=-1) + entropy(*reversed(two), axis=-1)
    np.testing.assert_allclose(symmetric_bernoulli_kl(one, other), expected, rtol=1e-10)


def test_classes_decided_each_for_itself_count_alike():
    one, other = logits(4, 3), logits(4, 3, seed=1)
    expected = sum(symmetric_bernoulli_kl(one[:, c], other[:, c]) for c in range(3)) / 3
    torch.testing.assert_close(DIVERGENCES["mean_symmetric_bernoulli_kl"](one, other), expected)


def test_squared_error_is_on_the_scale_of_the_scores():
    assert squared_error(torch.tensor([5.0, 1.0]), torch.tensor([2.0, 1.0])).tolist() == [9, 0]


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_symmetric_zero_at_equality_and_a_gradient_into_both(kind):
    shape = (6, 3) if kind in ("class", "labels") else (6,)
    one = logits(*shape).requires_grad_()
    other = logits(*shape, seed=1).requires_grad_()
    result = DIVERGENCES[kind]
    torch.testing.assert_close(result(one, other), result(other, one))
    assert result(one, one).abs().max() == 0
    torch.autograd.gradcheck(result, (one, other))


def test_small_differences_survive_single_precision():
    one = logits(64, 5)
    other = one + 1e-4 * logits(64, 5, seed=2)
    exact = symmetric_kl(one, other)
    result = symmetric_kl(one.float(), other.float()).double()
    assert ((result - exact).abs().sum() / exact.sum()) < 0.02
