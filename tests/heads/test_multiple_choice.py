"""The head that chooses an ending, against the formula as plain loops in float64."""

import math

import pytest
import torch

from tests.support.single_heads import make_head

ROWS, ENDINGS, WIDTH = 5, 4, 6


@pytest.fixture
def head():
    return make_head("multiple_choice")


@pytest.fixture
def vectors():
    """A vector [B, d] for each ending, in float64."""
    torch.manual_seed(1)
    made = torch.randn(ENDINGS, ROWS, WIDTH, dtype=torch.float64)
    return [one.requires_grad_() for one in made]


def naive_logits(head, vectors):
    """w . u + b of each ending of each row."""
    weights, bias = head.linear.weight[0].tolist(), head.linear.bias.item()
    return [
        [
            math.fsum(w * x for w, x in zip(weights, vectors[k][i].tolist(), strict=True)) + bias
            for k in range(ENDINGS)
        ]
        for i in range(ROWS)
    ]


def naive_softmax(row):
    total = math.fsum(math.exp(x) for x in row)
    return [math.exp(x) / total for x in row]


def test_logits_probabilities_and_loss_equal_the_formula(head, vectors):
    scores, labels = head(*vectors), torch.tensor([0, 3, 1, 2, 3])
    logits = naive_logits(head, vectors)
    torch.testing.assert_close(scores, torch.tensor(logits, dtype=torch.float64))
    predictions, shown = head.predict(scores)
    chances = [naive_softmax(row) for row in logits]
    torch.testing.assert_close(shown, torch.tensor(chances, dtype=torch.float64))
    assert predictions.tolist() == [row.index(max(row)) for row in chances]
    loss = -math.fsum(math.log(row[y]) for row, y in zip(chances, labels, strict=True)) / ROWS
    assert head.criterion(scores, labels).item() == pytest.approx(loss, rel=1e-12)


def test_every_ending_has_the_same_weights_and_a_gradient(head, vectors):
    turned = head(*vectors[1:], vectors[0])
    torch.testing.assert_close(turned, head(*vectors).roll(-1, dims=1))
    head.criterion(head(*vectors), torch.tensor([0, 1, 2, 3, 0])).backward()
    assert all(one.grad.any() for one in (*vectors, head.linear.weight))
    # the bias of a softmax cancels, as in AutoModelForMultipleChoice
    assert head.linear.bias.grad.abs().item() < 1e-12


def test_the_trivial_loss_is_that_of_the_frequencies_of_places(head):
    labels = torch.tensor([2, 2, 0, 1, 2, 3, 2, 0])
    shares = [2 / 8, 1 / 8, 4 / 8, 1 / 8]
    wanted = -math.fsum(math.log(shares[y]) for y in labels.tolist()) / len(labels)
    assert head.trivial_loss(labels, 0, 4) == pytest.approx(wanted, rel=1e-5)
