"""Where the Euclidean heads start."""

import torch

from multitask.config.registry import build
from tests.support.single_heads import CONTEXT, HIGH, LOW, D


def test_euclidean_heads_start_as_documented():
    """Equal sentences: similarity `high`, and a paraphrase; far ones: `low`, and none."""
    u = torch.zeros(2, D)
    v = torch.stack([u[0], u[1] + 1e6])
    similarity = build("head", "euclidean_similarity", {}, CONTEXT)(u, v)
    torch.testing.assert_close(similarity, torch.tensor([HIGH, LOW]), rtol=1e-4, atol=1e-4)
    paraphrase = build("head", "euclidean_paraphrase", {}, CONTEXT)
    torch.testing.assert_close(paraphrase(u, v)[0], torch.tensor(1.0))
    assert paraphrase.predict(paraphrase(u, v))[0].tolist() == [1, 0]
