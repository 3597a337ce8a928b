"""Every head of sequences against its formula as a plain loop, and one contract for all of them."""

import inspect
import math
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

from heads.siamese_paraphrase import FEATURES
from multitask.config.registry import HEADS, resolve
from tests.support.single_heads import COUNTS, HIGH, LOW, B, C, make_head, vectors

# a new head is covered as soon as it is registered; options that change the computation follow
# of one sequence or of a pair; the head on tokens has tests/heads/test_masked_lm.py, those on views
# have tests/models/losses
ON_VECTORS = [name for name in HEADS if resolve("head", name).takes in ("vector", "pair")]
VARIANTS = [(name, {}) for name in ON_VECTORS] + [
    ("classification", {"class_weights": "balanced"}),
    ("classification", {"class_weights": [1, 0, 3]}),
    ("classification", {"label_smoothing": 0.1}),
    ("siamese_paraphrase", {"features": list(FEATURES)}),
    ("cosine_regression", {"linear": True}),
]
variants = pytest.mark.parametrize(
    ("name", "options"), VARIANTS, ids=[f"{name}-{'-'.join(options)}" for name, options in VARIANTS]
)


def labels(head):
    """B valid labels."""
    return {
        "class": torch.tensor([0, 2, 1, 2, 0]),
        "binary": torch.tensor([0, 1, 1, 0, 1]),
        "number": torch.tensor([1.0, 4.8, 2.5, 3.0, 5.0]),
        "labels": torch.tensor([[0, 1, 1], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1]]).float(),
    }[head.task_type]


# ---- the contract


@pytest.mark.parametrize("name", ON_VECTORS)
def test_declares_what_it_takes_and_predicts(name):
    head = resolve("head", name)
    assert head.takes in ("vector", "pair")
    assert head.task_type in ("class", "binary", "number", "labels")
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
    assert scores.shape == ((B, C) if head.task_type in ("class", "labels") else (B,))
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
    if head.task_type == "labels":
        assert predictions.dtype == torch.int64 and shown.shape == (50, C)
        assert torch.equal(predictions, (shown > 0.5).long()) and 0 < predictions.sum() < 50 * C
        return
    assert predictions.shape == (50,) and shown.shape == (
        50,
        C if head.task_type == "class" else 1,
    )
    if head.task_type == "number":
        assert predictions.min() >= head.low and predictions.max() <= head.high
        assert torch.equal(predictions, scores.clip(head.low, head.high))
        assert torch.equal(shown[:, 0], predictions)
        return
    assert predictions.dtype == torch.int64
    assert shown.min() >= 0 and shown.max() <= 1
    if head.task_type == "class":
        assert torch.allclose(shown.sum(1), torch.ones(50, dtype=torch.float64))
        assert torch.equal(predictions, shown.argmax(1))
        assert set(predictions.tolist()) <= set(range(C))
    else:
        assert torch.equal(predictions, (shown[:, 0] > 0.5).long())


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


# ---- references: plain loops over the formulas


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def norm(a):
    return math.sqrt(dot(a, a))


def affine(layer, x):
    """W x + b of one vector."""
    rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [dot(row, x) + bias for row, bias in rows]


def scaled(x):
    return LOW + (HIGH - LOW) * x


def distance(u, v):
    return norm([a - b for a, b in zip(u, v, strict=True)])


def pair_features(u, v, names):
    made = {
        "u": u,
        "v": v,
        "abs_diff": [abs(a - b) for a, b in zip(u, v, strict=True)],
        "product": [a * b for a, b in zip(u, v, strict=True)],
    }
    return [x for name in names for x in made[name]]


def naive_cosine(head, u, v, linear=False):
    a, b = (affine(head.linear, side) if linear else side for side in (u, v))
    return scaled(dot(a, b) / (norm(a) * norm(b)))


def naive_joined(head, u, v):
    a, b = affine(head.adjust, u), affine(head.adjust, v)
    return scaled(affine(head.output, [dot(a, b) / (norm(a) * norm(b)), *a, *b])[0])


def naive_siamese(head, u, v, features=("abs_diff",)):
    return affine(head.linear, pair_features(u, v, features))[0]


def naive_ordinal(head, x):
    """log P(y = k), as differences of cumulative probabilities."""
    gaps = [math.exp(raw) for raw in head.log_gaps.tolist()]
    lowest = head.middle.item() - math.fsum(gaps) / 2
    thresholds = [lowest + math.fsum(gaps[:k]) for k in range(C - 1)]
    direction = dot(head.linear.weight[0].tolist(), x)
    cumulative = [0.0, *(1 / (1 + math.exp(direction - t)) for t in thresholds), 1.0]
    return [math.log(high - low) for low, high in pairwise(cumulative)]


NAIVE_SCORES = {
    "ordinal": naive_ordinal,
    "classification": lambda head, x, **_: affine(head.linear, x),
    "binary": lambda head, x: affine(head.linear, x)[0],
    "multi_label": lambda head, x: affine(head.linear, x),
    "regression": lambda head, x: scaled(affine(head.linear, x)[0]),
    "siamese_paraphrase": naive_siamese,
    "cosine_regression": naive_cosine,
    "cosine_with_embeddings": naive_joined,
    "euclidean_paraphrase": lambda head, u, v: (
        head.slope.item() * distance(u, v) + head.bias.item()
    ),
    "euclidean_similarity": lambda head, u, v: scaled(
        1 / (1 + math.exp(head.log_scale.item()) * distance(u, v))
    ),
}


def naive_class_loss(scores, gold, class_weights=None, label_smoothing=0.0):
    if class_weights == "balanced":
        class_weights = [sum(COUNTS) / (C * count) for count in COUNTS]
    total = 0.0
    for row, y in zip(scores, gold, strict=True):
        partition = math.fsum(math.exp(x) for x in row)
        for c in range(C):
            target = (1 - label_smoothing) * (c == y) + label_smoothing / C
            weight = class_weights[c] if class_weights else 1.0
            total -= weight * target * math.log(math.exp(row[c]) / partition)
    return total / len(gold)


def naive_binary_loss(scores, gold, **_):
    total = 0.0
    for x, y in zip(scores, gold, strict=True):
        p = 1 / (1 + math.exp(-x))
        total -= y * math.log(p) + (1 - y) * math.log(1 - p)
    return total / len(gold)


def naive_number_loss(scores, gold, **_):
    return math.fsum((x - y) ** 2 for x, y in zip(scores, gold, strict=True)) / len(gold)


def naive_labels_loss(scores, gold, **_):
    pairs = [naive_binary_loss(*row) for row in zip(scores, gold, strict=True)]
    return math.fsum(pairs) / len(pairs)


NAIVE_LOSS = {
    "labels": naive_labels_loss,
    "class": naive_class_loss,
    "binary": naive_binary_loss,
    "number": naive_number_loss,
}

FEATURE_SETS = [list(names) for size in range(1, 5) for names in combinations(FEATURES, size)]
REFERENCED = [
    *VARIANTS,
    *(("siamese_paraphrase", {"features": names}) for names in FEATURE_SETS),
    ("siamese_paraphrase", {"features": ["product", "abs_diff", "v", "u"]}),
    ("classification", {"class_weights": "balanced", "label_smoothing": 0.2}),
    ("classification", {"class_weights": [0.5, 2.0, 0.0], "label_smoothing": 0.3}),
]


def test_every_head_has_a_reference():
    assert set(NAIVE_SCORES) == set(ON_VECTORS)


@pytest.mark.parametrize(("name", "options"), REFERENCED)
def test_scores_and_loss_equal_the_formula(name, options):
    head = make_head(name, options)
    inputs, gold = vectors(head), labels(head)
    scores = head(*inputs)
    rows = zip(*(vector.tolist() for vector in inputs), strict=True)
    expected = [NAIVE_SCORES[name](head, *row, **options) for row in rows]
    assert np.abs(np.array(scores.tolist()) - expected).max() < 1e-10
    loss = NAIVE_LOSS[head.task_type](expected, gold.tolist(), **options)
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
