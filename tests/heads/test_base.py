"""The loss over the first numbers of vectors equals `MatryoshkaLoss` of sentence-transformers."""

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import (
    CosineSimilarityLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
)
from torch import nn

from multitask.config.registry import build
from multitask.data.collate import Batch
from multitask.utils.errors import UserError

DIM, ROWS, SIZES = 8, 5, [8, 5, 2]
COSINE = {"dim": DIM, "low": 0.0, "high": 1.0}


class Given(nn.Module):
    """Stands in for their model: the features are the vectors."""

    def forward(self, features):
        return {"sentence_embedding": features["vectors"]}

    def get_embedding_dimension(self):
        return DIM


def vectors():
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(ROWS, DIM, generator=generator, dtype=torch.float64).requires_grad_()
        for _ in range(2)
    ]


def ours(name, context, options, labels):
    u, v = vectors()
    head = build("head", name, options, context).train()
    batch = Batch.of_vectors(2, labels)
    loss, scores = head.loss(torch.cat([u, v]), batch)
    loss.backward()
    return loss, u.grad, v.grad, scores


def theirs(base, sizes, labels):
    u, v = vectors()
    loss = MatryoshkaLoss(base.model, base, sizes)([{"vectors": u}, {"vectors": v}], labels)
    loss.backward()
    return loss, u.grad, v.grad


@pytest.mark.parametrize("sizes", [[8, 5, 2], [3], [2, 8]], ids=str)
def test_cosine_regression(sizes):
    labels = torch.tensor([0.0, 0.25, 0.5, 1.0, 0.875], dtype=torch.float64)
    *made, scores = ours("cosine_regression", COSINE, {"matryoshka": sizes}, labels)
    for one, other in zip(made, theirs(CosineSimilarityLoss(Given()), sizes, labels), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    plain = ours("cosine_regression", COSINE, {}, labels)[3]
    assert torch.equal(scores, plain)  # a score is that of the whole vectors


@pytest.mark.parametrize("sizes", [[8, 5, 2], [3]], ids=str)
def test_contrastive(sizes):
    numbers = torch.arange(2 * ROWS).reshape(ROWS, 2)
    options = {"matryoshka": sizes, "temperature": 0.1}
    made = ours("contrastive", {"dim": DIM}, options, numbers)[:3]
    base = MultipleNegativesRankingLoss(Given(), scale=10.0)
    for one, other in zip(made, theirs(base, sizes, None), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["cosine_regression", "contrastive"])
@pytest.mark.parametrize("sizes", [[], [9], [0], [4, 4]], ids=str)
def test_sizes_that_no_vector_has(name, sizes):
    context = COSINE if name == "cosine_regression" else {"dim": DIM}
    with pytest.raises(UserError, match="different numbers from 1 to 8"):
        build("head", name, {"matryoshka": sizes}, context)


def test_a_linear_layer_mixes_all_numbers():
    with pytest.raises(UserError, match="linear"):
        build("head", "cosine_regression", {"matryoshka": [4], "linear": True}, COSINE)


def test_the_trivial_loss_counts_each_size():
    labels = torch.tensor([0.0, 1.0, 1.0])
    plain, three = (
        build("head", "cosine_regression", options, COSINE).trivial_loss(labels, 0, 3)
        for options in ({}, {"matryoshka": SIZES})
    )
    assert three == pytest.approx(3 * plain)
