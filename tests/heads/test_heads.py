"""Every head against its formula as a plain loop in float64, and one contract for the registry."""

import inspect
import math
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from heads.siamese_paraphrase import FEATURES
from multitask.config.registry import HEADS, build, resolve
from multitask.utils.errors import UserError

B, D, C = 5, 6, 3
COUNTS = [7, 2, 4]
LOW, HIGH = 1.0, 5.0
CONTEXT = {"dim": D, "num_labels": C, "class_counts": COUNTS, "low": LOW, "high": HIGH}

# a new head is covered as soon as it is registered; options that change the computation follow
# of one sequence or of a pair; the head on tokens has tests/heads/test_masked_lm.py, those on views
# have tests/losses
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


def make(name, options=(), **context):
    """A float64 head with every parameter drawn at random."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        head = build("head", name, dict(options), CONTEXT | context)
    finally:
        torch.set_default_dtype(torch.float32)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return head


def vectors(head, rows=B, seed=1):
    """What the head takes, float64 with a gradient."""
    generator = torch.Generator().manual_seed(seed)
    sides = {"vector": 1, "pair": 2}[head.takes]
    made = [torch.randn(rows, D, generator=generator, dtype=torch.float64) for _ in range(sides)]
    return [vector.requires_grad_() for vector in made]


def labels(head):
    """B valid labels."""
    return {
        "class": torch.tensor([0, 2, 1, 2, 0]),
        "binary": torch.tensor([0, 1, 1, 0, 1]),
        "number": torch.tensor([1.0, 4.8, 2.5, 3.0, 5.0]),
        "labels": torch.tensor([[0, 1, 1], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1]]).float(),
    }[head.label_type]


# ---- the contract


@pytest.mark.parametrize("name", ON_VECTORS)
def test_declares_what_it_takes_and_predicts(name):
    head = resolve("head", name)
    assert head.takes in ("vector", "pair")
    assert head.label_type in ("class", "binary", "number", "labels")
    arguments = list(inspect.signature(head.forward).parameters)[1:]
    assert len(arguments) == {"vector": 1, "pair": 2}[head.takes]


@variants
@pytest.mark.parametrize("same", [False, True], ids=["", "u=v"])
def test_scores_loss_and_gradients(name, options, same):
    head = make(name, options)
    inputs = vectors(head)
    if same:
        inputs = inputs[:1] * len(inputs)
    scores = head(*inputs)
    assert scores.shape == ((B, C) if head.label_type in ("class", "labels") else (B,))
    loss = head.loss(scores, labels(head))
    assert loss.shape == () and loss.isfinite()
    loss.backward()
    for key, tensor in [*head.named_parameters(), *enumerate(inputs)]:
        assert tensor.grad is not None, key
        assert tensor.grad.isfinite().all(), key
        assert same or tensor.grad.any(), key


@variants
def test_predictions_are_in_range(name, options):
    head = make(name, options)
    with torch.no_grad():
        scores = 10 * head(*vectors(head, rows=50))
    predictions, shown = head.predict(scores)
    if head.label_type == "labels":
        assert predictions.dtype == torch.int64 and shown.shape == (50, C)
        assert torch.equal(predictions, (shown > 0.5).long()) and 0 < predictions.sum() < 50 * C
        return
    assert predictions.shape == (50,) and shown.shape == (
        50,
        C if head.label_type == "class" else 1,
    )
    if head.label_type == "number":
        assert torch.equal(predictions, scores) and torch.equal(shown[:, 0], scores)
        return
    assert predictions.dtype == torch.int64
    assert shown.min() >= 0 and shown.max() <= 1
    if head.label_type == "class":
        assert torch.allclose(shown.sum(1), torch.ones(50, dtype=torch.float64))
        assert torch.equal(predictions, shown.argmax(1))
        assert set(predictions.tolist()) <= set(range(C))
    else:
        assert torch.equal(predictions, (shown[:, 0] > 0.5).long())


@variants
def test_batch_equals_single_and_loss_is_a_mean_over_rows(name, options):
    """So the loss of an epoch, an accumulated step or a split does not depend on its batches."""
    head = make(name, options)
    inputs, gold = vectors(head), labels(head)
    scores = head(*inputs)
    alone = [head(*(vector[i : i + 1] for vector in inputs)) for i in range(B)]
    torch.testing.assert_close(torch.cat(alone), scores, rtol=1e-12, atol=1e-12)
    losses = [head.loss(alone[i], gold[i : i + 1]).item() for i in range(B)]
    assert head.loss(scores, gold).item() == pytest.approx(math.fsum(losses) / B, rel=1e-12)


@variants
def test_fp32_stays_fp32_and_agrees_with_float64(name, options):
    head = make(name, options)
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
    head = make(name, options)
    inputs, gold = vectors(head), labels(head)
    scores = head(*inputs)
    rows = zip(*(vector.tolist() for vector in inputs), strict=True)
    expected = [NAIVE_SCORES[name](head, *row, **options) for row in rows]
    assert np.abs(np.array(scores.tolist()) - expected).max() < 1e-10
    loss = NAIVE_LOSS[head.label_type](expected, gold.tolist(), **options)
    assert head.loss(scores, gold).item() == pytest.approx(loss, rel=1e-10)


@pytest.mark.parametrize("features", FEATURE_SETS, ids="-".join)
def test_order_matters_exactly_when_a_side_is_a_feature(features):
    head = make("siamese_paraphrase", {"features": features})
    u, v = vectors(head)
    swapped_is_same = torch.allclose(head(u, v), head(v, u), rtol=0, atol=1e-12)
    assert swapped_is_same == (not {"u", "v"} & set(features))


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
    head = make(name)
    u, v = vectors(head)
    assert torch.allclose(head(u, v), head(v, u), rtol=0, atol=1e-12) == symmetric


# ---- details of single heads


def test_cosine_is_five_times_the_cosine_and_never_clipped():
    head = make("cosine_regression", low=0.0, high=5.0)
    u = torch.eye(D, dtype=torch.float64)[:3]
    v = torch.stack([2 * u[0], -3 * u[1], u[0]])
    scores = head(u, v)
    torch.testing.assert_close(scores, torch.tensor([5.0, -5.0, 0.0], dtype=torch.float64))
    assert head.loss(scores[1:2], torch.tensor([0.0])).item() == pytest.approx(25)
    assert head.predict(scores)[0][1].item() == pytest.approx(-5)
    assert not list(head.parameters())


def test_euclidean_heads_start_as_documented():
    """Equal sentences: similarity `high`, and a paraphrase; far ones: `low`, and none."""
    u = torch.zeros(2, D)
    v = torch.stack([u[0], u[1] + 1e6])
    similarity = build("head", "euclidean_similarity", {}, CONTEXT)(u, v)
    torch.testing.assert_close(similarity, torch.tensor([HIGH, LOW]), rtol=1e-4, atol=1e-4)
    paraphrase = build("head", "euclidean_paraphrase", {}, CONTEXT)
    torch.testing.assert_close(paraphrase(u, v)[0], torch.tensor(1.0))
    assert paraphrase.predict(paraphrase(u, v))[0].tolist() == [1, 0]


def test_binary_loss_is_finite_for_a_sure_mistake():
    head = make("binary")
    assert head.loss(torch.tensor([300.0, -300.0]), torch.tensor([0, 1])).item() == 300


def test_balanced_weights_are_those_of_scikit_learn():
    y = np.repeat(np.arange(C), COUNTS)
    expected = compute_class_weight("balanced", classes=np.arange(C), y=y)
    found = make("classification", {"class_weights": "balanced"}).class_weights
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found[torch.from_numpy(y)].mean().item() == pytest.approx(1)  # the loss keeps its scale


def test_without_weights_the_loss_is_that_of_torch():
    head = make("classification", {"label_smoothing": 0.1})
    scores, gold = head(*vectors(head)), labels(head)
    expected = torch.nn.CrossEntropyLoss(label_smoothing=0.1)(scores, gold)
    torch.testing.assert_close(head.loss(scores, gold), expected)


def test_rows_of_weightless_classes_alone_have_no_loss():
    head = make("classification", {"class_weights": [1, 0, 1]})  # a division by weights is NaN
    scores = head(*vectors(head))
    assert head.loss(scores, torch.ones(B, dtype=torch.int64)).item() == 0


@pytest.mark.parametrize(
    ("name", "options", "context", "message"),
    [
        ("classification", {"label_smoothing": 1.0}, {}, r"label_smoothing must be in \[0, 1\)"),
        ("classification", {"label_smoothing": -0.1}, {}, r"label_smoothing must be in \[0, 1\)"),
        ("classification", {"label_smoothing": math.nan}, {}, r"label_smoothing must be in"),
        ("classification", {"class_weights": "even"}, {}, "'balanced' or a list"),
        ("classification", {"class_weights": 2.0}, {}, "class_weights must be"),
        ("classification", {"class_weights": [1.0, 2.0]}, {}, "must be 3 numbers"),
        ("classification", {"class_weights": []}, {}, "must be 3 numbers"),
        ("classification", {"class_weights": [1.0, 2.0, -1.0]}, {}, "none negative"),
        ("classification", {"class_weights": [0.0, 0.0, 0.0]}, {}, "must not all be 0"),
        ("classification", {"class_weights": [1.0, 2.0, math.nan]}, {}, "must be 3 numbers"),
        ("classification", {"class_weights": [1.0, 2.0, "a lot"]}, {}, "a lot"),
        (
            "classification",
            {"class_weights": "balanced"},
            {"class_counts": [3, 0, 1]},
            "a training row of every class",
        ),
        ("siamese_paraphrase", {"features": []}, {}, "features must be a list"),
        ("siamese_paraphrase", {"features": ["u", "w"]}, {}, "features must be a list"),
        ("siamese_paraphrase", {"features": ["u", "u"]}, {}, "features must be a list"),
        ("siamese_paraphrase", {"features": "uv"}, {}, "features must be"),
        ("siamese_paraphrase", {"feature": ["u"]}, {}, "did you mean 'features'"),
        ("binary", {"linear": True}, {}, "no option 'linear'"),
    ],
)
def test_bad_options_are_one_line(name, options, context, message):
    with pytest.raises(UserError, match=message) as caught:
        make(name, options, **context)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("features", ["uv", "u", ["u", "u"], []])
def test_features_are_a_list_of_different_names(features):
    """Outside the registry, which checks types, too: the text "uv" is no list."""
    with pytest.raises(ValueError, match="features must be a list"):
        resolve("head", "siamese_paraphrase")(D, features)


@pytest.mark.parametrize("classes", [2, 3, 5, 12])
def test_ordinal_classes_are_equally_likely_at_the_start(classes):
    head = build("head", "ordinal", {}, CONTEXT | {"num_labels": classes})
    scores = head(torch.zeros(4, D))
    expected = torch.full((4, classes), 1 / classes)
    torch.testing.assert_close(head.predict(scores)[1], expected)


def test_ordinal_with_two_classes_is_logistic_regression():
    head = make("ordinal", num_labels=2)
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
