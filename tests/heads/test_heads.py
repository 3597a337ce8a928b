"""Every head of sequences against its formula as a plain loop, and one contract for all of them."""

import inspect
import math

import numpy as np
import pytest
import torch

from multitask.config.registry import HEADS, TASK_TYPES, resolve
from tests.support.cases import head_case, loss_of, type_case
from tests.support.single_heads import B, make_head, vectors

# a new head is covered as soon as it is registered and has its case, which names more options:
# of one sequence or of a pair; the head on tokens has tests/heads/test_masked_lm.py, those on views
# have tests/models/losses
ON_VECTORS = [name for name in HEADS if resolve("head", name).takes in ("vector", "pair")]
VARIANTS = [
    (name, options)
    for name in ON_VECTORS
    for options in ({}, *getattr(head_case(name), "VARIANTS", []))
]
variants = pytest.mark.parametrize(
    ("name", "options"), VARIANTS, ids=[f"{name}-{options}" for name, options in VARIANTS]
)


def labels(head):
    """B valid labels."""
    return type_case(head.task_type).LABELS


# ---- the contract


@pytest.mark.parametrize("name", ON_VECTORS)
def test_declares_what_it_takes_and_predicts(name):
    head = resolve("head", name)
    assert head.takes in ("vector", "pair")
    assert head.task_type in TASK_TYPES
    arguments = list(inspect.signature(head.forward).parameters)[1:]
    assert len(arguments) == {"vector": 1, "pair": 2}[head.takes]


@variants
@pytest.mark.parametrize("same", [False, True], ids=["", "u=v"])
def test_scores_loss_and_gradients(name, options, same):
    head = make_head(name, options)
    inputs = vectors(head)
    if same:
        inputs = inputs[:1] * len(inputs)
    scores = head(*inputs)
    loss = head.loss(scores, labels(head))
    assert loss.shape == () and loss.isfinite()
    loss.backward()
    for key, tensor in [*head.named_parameters(), *enumerate(inputs)]:
        assert tensor.grad is not None, key
        assert tensor.grad.isfinite().all(), key
        assert same or tensor.grad.any(), key


@variants
def test_predictions_are_in_range(name, options):
    head = make_head(name, options)
    with torch.no_grad():
        scores = 10 * head(*vectors(head, rows=50))
    predictions, shown = head.predict(scores)
    assert len(predictions) == len(shown) == 50
    type_case(head.task_type).check_predictions(head, scores, predictions, shown)


@variants
def test_batch_equals_single_and_loss_is_a_mean_over_rows(name, options):
    """So the loss of an epoch, an accumulated step or a split does not depend on its batches."""
    head = make_head(name, options)
    inputs, gold = vectors(head), labels(head)
    scores = head(*inputs)
    alone = [head(*(vector[i : i + 1] for vector in inputs)) for i in range(B)]
    torch.testing.assert_close(torch.cat(alone), scores, rtol=1e-12, atol=1e-12)
    losses = [head.loss(alone[i], gold[i : i + 1]).item() for i in range(B)]
    assert head.loss(scores, gold).item() == pytest.approx(math.fsum(losses) / B, rel=1e-12)


@variants
def test_fp32_stays_fp32_and_agrees_with_float64(name, options):
    head = make_head(name, options)
    inputs, gold = vectors(head), labels(head)
    exact = head(*inputs)
    exact_loss = head.loss(exact, gold).item()
    scores = head.float()(*(vector.float() for vector in inputs))
    loss = head.loss(scores, gold)
    assert scores.dtype == loss.dtype == torch.float32
    torch.testing.assert_close(scores.double(), exact, rtol=1e-5, atol=1e-5)
    assert loss.item() == pytest.approx(exact_loss, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *VARIANTS,
        *(("siamese_paraphrase", one) for one in head_case("siamese_paraphrase").ONE_SIDED),
    ],
)
def test_scores_and_loss_equal_the_formula(name, options):
    head = make_head(name, options)
    inputs, gold = vectors(head), labels(head)
    scores = head(*inputs)
    rows = zip(*(vector.tolist() for vector in inputs), strict=True)
    expected = [head_case(name).naive_scores(head, *row, **options) for row in rows]
    assert scores.shape == np.shape(expected)
    assert np.abs(np.array(scores.tolist()) - expected).max() < 1e-10
    loss = loss_of(name).naive_loss(expected, gold.tolist(), **options)
    assert head.loss(scores, gold).item() == pytest.approx(loss, rel=1e-10)


@pytest.mark.parametrize(
    ("name", "symmetric"),
    [
        ("cosine_regression", True),
        ("euclidean_paraphrase", True),
        ("euclidean_similarity", True),
        ("cosine_with_embeddings", False),
    ],
)
def test_symmetry_is_as_documented(name, symmetric):
    head = make_head(name)
    u, v = vectors(head)
    assert torch.allclose(head(u, v), head(v, u), rtol=0, atol=1e-12) == symmetric
