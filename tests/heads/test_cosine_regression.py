"""The cosine head by hand."""

import pytest
import torch

from tests.support.single_heads import D, make_head


def test_the_score_is_five_times_the_cosine_and_the_prediction_is_clipped():
    head = make_head("cosine_regression", low=0.0, high=5.0)
    u = torch.eye(D, dtype=torch.float64)[:3]
    v = torch.stack([2 * u[0], -3 * u[1], u[0]])
    scores = head(u, v)
    torch.testing.assert_close(scores, torch.tensor([5.0, -5.0, 0.0], dtype=torch.float64))
    assert head.criterion(scores[1:2], torch.tensor([0.0])).item() == pytest.approx(25)
    assert [side.flatten().tolist() for side in head.predict(scores)] == [[5, 0, 0]] * 2
    assert not list(head.parameters())
