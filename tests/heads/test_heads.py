"""Every head of sequences against its formula as a plain loop, and one contract for all of them."""

import inspect
import math

import numpy as np
import pytest
import torch

from heads.base import Head
from multitask.config.registry import HEADS, TASK_TYPES, input_type, resolve
from multitask.data.collate import Batch
from multitask.models.head_checks import inputs_for
from tests.support.cases import head_case, loss_of, type_case
from tests.support.single_heads import B, make_head, on_vectors, vectors

# a new head is covered as soon as it is registered and has its case, which names more options:
# of one sequence or of a pair; the head on tokens has tests/heads/test_masked_lm.py, those on views
# have tests/models/losses
ON_VECTORS = [name for name in HEADS if on_vectors(resolve("head", name))]
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


@pytest.mark.parametrize("name", HEADS)
def test_fits_an_input_and_predicts_a_type(name):
    head = resolve("head", name)
    fitting = {vectors: inputs_for(head, vectors) for vectors in (True, False)}
    assert sum(map(bool, fitting.values())) == 1  # it reads vectors or tokens
    assert head.task_type in TASK_TYPES
    arguments = list(inspect.signature(head.forward).parameters)[1:]
    for form in map(input_type, fitting[True] if name in ON_VECTORS else []):
        assert len(arguments) == form.sides


@variants
def test_its_loss_of_a_batch_is_that_of_the_labelled_rows(name, options):
    head = make_head(name, options)
    inputs, gold = vectors(head), labels(head)
    rows = torch.tensor([0, 3])
    batch = Batch.of_vectors(len(inputs), gold)
    loss, scores = head.loss(torch.cat(inputs), batch)
    assert torch.equal(scores, head(*inputs))
    assert torch.equal(loss, head.criterion(scores, gold))
    batch.labels, batch.labelled = gold[rows], rows
    loss, scores = head.loss(torch.cat(inputs), batch)
    assert torch.equal(scores, head(*inputs)[rows])
    assert torch.equal(loss, head.criterion(scores, gold[rows]))
    batch.labels, batch.labelled = gold[:0], rows[:0]
    loss, scores = head.loss(torch.cat(inputs), batch)
    assert loss.item() == 0 and len(scores) == 0 and loss.requires_grad


@variants
@pytest.mark.parametrize("same", [False, True], ids=["", "u=v"])
def test_scores_loss_and_gradients(name, options, same):
    head = make_head(name, options)
    inputs = vectors(head)
    if same:
        inputs = inputs[:1] * len(inputs)
    scores = head(*inputs)
    loss = head.criterion(scores, labels(head))
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
    losses = [head.criterion(alone[i], gold[i : i + 1]).item() for i in range(B)]
    assert head.criterion(scores, gold).item() == pytest.approx(math.fsum(losses) / B, rel=1e-12)


@variants
def test_fp32_stays_fp32_and_agrees_with_float64(name, options):
    head = make_head(name, options)
    inputs, gold = vectors(head), labels(head)
    exact = head(*inputs)
    exact_loss = head.criterion(exact, gold).item()
    scores = head.float()(*(vector.float() for vector in inputs))
    loss = head.criterion(scores, gold)
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
    assert head.criterion(scores, gold).item() == pytest.approx(loss, rel=1e-10)


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


def cross_entropy(target, given):
    return -math.fsum(p * math.log(q) for p, q in zip(target, given, strict=True))


def softened(probabilities, temperature):
    powers = [p ** (1 / temperature) for p in probabilities]
    return [power / math.fsum(powers) for power in powers]


with_soft_loss = pytest.mark.parametrize(
    ("name", "options"),
    [case for case in VARIANTS if resolve("head", case[0]).soft_loss is not Head.soft_loss],
)


@with_soft_loss
@pytest.mark.parametrize("temperature", [1, 3])
def test_the_loss_on_a_teachers_scores_equals_the_formula(name, options, temperature):
    """(1 - w) times the loss on labels plus w T^2 times that on softened probabilities."""
    head = make_head(name, options)
    inputs, gold, weight = vectors(head), labels(head), 0.3
    _, teacher = head.predict(torch.cat([head(*vectors(head, seed=9))]))
    teacher = teacher.detach()
    scores = head(*inputs)
    _, shown = head.predict(scores)
    if head.divergence == "squared_error":
        temperature, pairs = 1, zip(teacher[:, 0].tolist(), scores.tolist(), strict=True)
        losses = [(one - other) ** 2 for one, other in pairs]
    elif head.divergence == "symmetric_kl":
        pairs = zip(teacher.tolist(), shown.tolist(), strict=True)
        losses = [cross_entropy(*(softened(row, temperature) for row in pair)) for pair in pairs]
    else:  # each number is the probability of one decision
        pairs = zip(teacher.flatten().tolist(), shown.flatten().tolist(), strict=True)
        losses = [
            cross_entropy(*(softened([p, 1 - p], temperature) for p in pair)) for pair in pairs
        ]
    soft = math.fsum(losses) / len(losses)
    expected = (1 - weight) * head.criterion(scores, gold).item() + weight * temperature**2 * soft
    batch = Batch.of_vectors(len(inputs), gold)
    batch.teacher, batch.teacher_weight, batch.temperature = teacher, weight, temperature
    loss, _ = head.loss(torch.cat(inputs), batch)
    assert loss.item() == pytest.approx(expected, rel=1e-9)
    loss.backward()
    assert all(vector.grad is not None for vector in inputs)


@with_soft_loss
def test_a_teacher_that_is_sure_stays_finite(name, options):
    head = make_head(name, options)
    inputs, gold = vectors(head), labels(head)
    _, shown = head.predict(head(*inputs))
    batch = Batch.of_vectors(len(inputs), gold)
    batch.teacher, batch.teacher_weight = shown.detach().round().float(), 1.0
    loss, _ = head.loss(torch.cat(inputs), batch)
    loss.backward()
    assert loss.isfinite() and all(vector.grad.isfinite().all() for vector in inputs)
