"""The ordinal head: its start, its limits, what it learns."""

import pytest
import torch

from multitask.config.registry import build
from tests.support.single_heads import CONTEXT, D, make_head, vectors


@pytest.mark.parametrize("classes", [2, 3, 5, 12])
def test_ordinal_classes_are_equally_likely_at_the_start(classes):
    head = build("head", "ordinal", {}, CONTEXT | {"num_labels": classes})
    scores = head(torch.zeros(4, D))
    expected = torch.full((4, classes), 1 / classes)
    torch.testing.assert_close(head.predict(scores)[1], expected)


def test_ordinal_with_two_classes_is_logistic_regression():
    head = make_head("ordinal", num_labels=2)
    (vector,) = vectors(head)
    expected = torch.sigmoid(head.linear(vector)[:, 0] - head.middle)
    torch.testing.assert_close(head.predict(head(vector))[1][:, 1], expected)


def test_ordinal_is_finite_far_from_every_threshold():
    """There the plain difference of two sigmoids is 0, and its logarithm -inf."""
    head = build("head", "ordinal", {}, CONTEXT | {"num_labels": 5})
    vector = torch.tensor([[1e3], [-1e3]]) * head.linear.weight.detach().sign()
    vector.requires_grad_()
    scores = head(vector)
    assert scores.isfinite().all()
    assert scores.argmax(1).tolist() == [4, 0]
    head.loss(scores, torch.tensor([1, 3])).backward()
    assert all(tensor.grad.isfinite().all() for tensor in (vector, *head.parameters()))


def test_ordinal_learns_a_scale_and_passes_through_the_classes_in_order():
    torch.manual_seed(0)
    head = build("head", "ordinal", {}, CONTEXT | {"num_labels": 5})
    optimizer = torch.optim.AdamW(head.parameters(), lr=0.1, fused=True)
    vector = torch.randn(200, D)
    position = vector @ torch.randn(D)
    gold = torch.bucketize(position, position.quantile(torch.tensor([0.1, 0.3, 0.5, 0.9])))
    for _ in range(150):
        head.loss(head(vector), gold).backward()
        optimizer.step()
        optimizer.zero_grad()
    predictions = head.predict(head(vector))[0]
    assert (predictions == gold).float().mean() > 0.9
    ordered = predictions[head.linear(vector)[:, 0].argsort()]
    assert (ordered.diff() >= 0).all() and set(ordered.tolist()) == set(range(5))
