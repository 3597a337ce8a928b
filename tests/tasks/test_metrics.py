"""Every metric against its formula written out naively in float64, and the bootstrap's habits."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, matthews_corrcoef

from multitask.tasks import bootstrap, metrics
from multitask.tasks.bootstrap import intervals, resampled_rows
from multitask.tasks.metric_names import METRICS, SELECTABLE


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def naive_f1(labels, predictions, positive):
    hits = sum(g == p == positive for g, p in zip(labels, predictions, strict=True))
    wrong = sum(g != p == positive for g, p in zip(labels, predictions, strict=True))
    missed = sum(p != g == positive for g, p in zip(labels, predictions, strict=True))
    if hits == 0:
        return 0.0
    precision, recall = hits / (hits + wrong), hits / (hits + missed)
    return 2 * precision * recall / (precision + recall)


def naive_mcc(labels, predictions):
    """Correlation of one-hot labels and predictions, over all classes; 0 where one is constant."""
    classes = sorted({*labels.tolist(), *predictions.tolist()})
    sides = [[[float(x == c) for x in side] for c in classes] for side in (labels, predictions)]
    centred = [[[v - sum(c) / len(c) for v in c] for c in side] for side in sides]

    def covariance(one, two):
        return math.fsum(
            x * y for a, b in zip(one, two, strict=True) for x, y in zip(a, b, strict=True)
        )

    gold, found = centred
    if len(set(labels.tolist())) < 2 or len(set(predictions.tolist())) < 2:
        return 0.0
    return covariance(gold, found) / math.sqrt(covariance(gold, gold) * covariance(found, found))


def naive_average_precision(labels, scores):
    if not any(labels):
        return math.nan
    total, recall_before = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        retrieved = [label for label, s in zip(labels, scores, strict=True) if s >= threshold]
        recall = sum(retrieved) / sum(labels)
        total += (recall - recall_before) * sum(retrieved) / len(retrieved)
        recall_before = recall
    return total


def naive_pearson(left, right):
    if len(set(left)) < 2 or len(set(right)) < 2:
        return math.nan
    left = [x - math.fsum(left) / len(left) for x in left]
    right = [y - math.fsum(right) / len(right) for y in right]
    covariance = math.fsum(x * y for x, y in zip(left, right, strict=True))
    return covariance / math.sqrt(math.fsum(x * x for x in left) * math.fsum(y * y for y in right))


def naive_ranks(values):
    """1 + how many are smaller + half of how many others are equal."""
    return [1 + sum(v < x for v in values) + (values.count(x) - 1) / 2 for x in values]


def two_columns(elements):
    """Pairs of equally long lists."""
    return st.lists(st.tuples(elements, elements), min_size=1, max_size=40).map(
        lambda rows: tuple(np.array(column) for column in zip(*rows, strict=True))
    )


def binary_set(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.random((rows, 1)).round(2)
    labels = (generator.random(rows) < scores[:, 0]).astype(int)
    return labels, (scores[:, 0] > 0.5).astype(int), scores


def number_set(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 26, rows) / 5
    predictions = labels + generator.normal(size=rows)
    return labels, predictions, predictions[:, None]


def class_set(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.dirichlet(np.ones(5), rows)
    predictions = scores.argmax(1)
    labels = np.where(generator.random(rows) < 0.5, predictions, generator.integers(0, 5, rows))
    return labels, predictions, scores


def tokens_set(rows=200, seed=0):
    generator = np.random.default_rng(seed)
    masked = generator.integers(0, 5, rows)
    right = generator.binomial(masked, 0.4)
    return masked, right, (masked * generator.uniform(0.5, 3, rows))[:, None]


def views_set(rows=200, seed=0):
    generator = np.random.default_rng(seed)
    chance = generator.random((rows, 1))
    return np.arange(2 * rows).reshape(rows, 2), (chance[:, 0] > 0.5).astype(int), chance


def labels_set(rows=300, seed=0):
    generator = np.random.default_rng(seed)
    chances = generator.random((rows, 4)) * [0.9, 0.8, 1.0, 0.6]
    return (generator.random((rows, 4)) < chances).astype(float), (chances > 0.5) * 1, chances


SETS = {
    "labels": labels_set,
    "class": class_set,
    "binary": binary_set,
    "number": number_set,
    "tokens": tokens_set,
    "views": views_set,
}


@given(arrays(int, st.tuples(st.integers(1, 30), st.just(4)), elements=st.integers(0, 3)))
def test_metrics_of_several_classes_equal_scikit_learns(cells):
    gold, predicted = cells % 2, cells // 2
    found = metrics.compute("labels", gold.astype(float), predicted, predicted.astype(float))
    occurs = [c for c in range(4) if gold[:, c].any() or predicted[:, c].any()]
    assert found["f1"] == pytest.approx(f1_score(gold, predicted, average="micro", zero_division=0))
    by_class = f1_score(gold, predicted, average=None, zero_division=0)
    assert found["macro_f1"] == pytest.approx(np.mean(by_class[occurs]) if occurs else 0)
    assert found["exact_match"] == pytest.approx(accuracy_score(gold, predicted))


@given(two_columns(st.integers(0, 3)))
def test_class_metrics_equal_their_formulas(columns):
    labels, predictions = columns
    values = metrics.compute("class", labels, predictions, np.full((len(labels), 4), 0.25))
    pairs = list(zip(labels.tolist(), predictions.tolist(), strict=True))
    occurring = {value for pair in pairs for value in pair}
    macro = [naive_f1(labels, predictions, c) for c in occurring]
    assert values == pytest.approx(
        {
            "accuracy": sum(g == p for g, p in pairs) / len(pairs),
            "macro_f1": sum(macro) / len(macro),
            "mcc": naive_mcc(labels, predictions),
            "mae": sum(abs(g - p) for g, p in pairs) / len(pairs),
        },
        abs=1e-12,
    )
    if len(occurring) > 1:  # else scikit-learn warns
        assert values["mcc"] == pytest.approx(matthews_corrcoef(labels, predictions), abs=1e-12)
    library = f1_score(labels, predictions, average="macro", zero_division=0)
    assert values["macro_f1"] == pytest.approx(library)


@given(two_columns(st.integers(0, 1)), st.data())
def test_binary_metrics_equal_their_formulas(columns, data):
    labels, predictions = columns
    # Few distinct values, so that many rows share a threshold.
    scores = data.draw(arrays(np.float64, len(labels), elements=st.sampled_from([0, 0.2, 0.7, 1])))
    values = metrics.compute("binary", labels, predictions, scores[:, None])
    assert values == pytest.approx(
        {
            "accuracy": np.mean(labels == predictions),
            "f1": naive_f1(labels, predictions, 1),
            "average_precision": naive_average_precision(labels.tolist(), scores.tolist()),
            "mcc": naive_mcc(labels, predictions),
        },
        abs=1e-12,
        nan_ok=True,
    )
    if labels.any():
        assert values["average_precision"] == pytest.approx(average_precision_score(labels, scores))


@given(two_columns(st.sampled_from([-1.5, 0.0, 0.2, 1.0, 3.4, 5.0])))
def test_number_metrics_equal_their_formulas(columns):
    labels, predictions = columns
    values = metrics.compute("number", labels, predictions, predictions[:, None])
    left, right = labels.tolist(), predictions.tolist()
    assert values == pytest.approx(
        {
            "pearson": naive_pearson(left, right),
            "spearman": naive_pearson(naive_ranks(left), naive_ranks(right)),
            "mse": math.fsum((x - y) ** 2 for x, y in zip(left, right, strict=True)) / len(left),
        },
        abs=1e-12,
        nan_ok=True,
    )


def test_the_first_metric_is_the_default_and_errors_are_not_selectable():
    first = {label_type: names[0] for label_type, names in METRICS.items()}
    assert first == {
        "class": "accuracy", "binary": "accuracy", "labels": "f1", "number": "pearson",
        "tokens": "accuracy", "views": "probability", "tags": "f1", "span": "f1",
    }  # fmt: skip
    assert SELECTABLE == {
        "class": ("accuracy", "macro_f1", "mcc"),
        "labels": ("f1", "macro_f1", "exact_match"),
        "binary": ("accuracy", "f1", "average_precision", "mcc"),
        "number": ("pearson", "spearman"),
        "tokens": ("accuracy",),
        "views": ("probability", "accuracy"),
        "tags": ("f1", "precision", "recall", "accuracy"),
        "span": ("f1", "exact_match"),
    }
    for label_type, make in SETS.items():
        assert tuple(metrics.compute(label_type, *make())) == METRICS[label_type]


@pytest.mark.parametrize("label_type", SETS)
def test_the_set_is_scored_as_a_whole_not_as_a_mean_over_batches(label_type):
    columns = SETS[label_type](rows=50)
    whole = metrics.compute(label_type, *columns)
    batches = [slice(0, 32), slice(32, 50)]
    parts = [metrics.compute(label_type, *(column[b] for column in columns)) for b in batches]
    for name, value in whole.items():
        assert value != pytest.approx(np.mean([part[name] for part in parts]), abs=1e-6)


def test_masked_tokens_are_counted_over_all_texts():
    # texts with 2, 0 and 3 masked tokens
    masked, right, losses = np.array([2, 0, 3]), np.array([1, 0, 3]), np.array([[2.0], [0], [1.5]])
    found = metrics.compute("tokens", masked, right, losses)
    assert found == pytest.approx({"accuracy": 4 / 5, "perplexity": math.exp(3.5 / 5)})


def test_masked_language_modelling_counts_only_alone():
    types = {"a": "class", "mlm": "tokens", "b": "number"}
    assert metrics.joint_tasks(types) == ["a", "b"]
    assert metrics.joint_tasks({"mlm": "tokens"}) == ["mlm"]
    assert metrics.joint_tasks({"a": "class", "simcse": "views"}) == ["a"]
    assert metrics.joint_tasks({"mlm": "tokens", "simcse": "views"}) == ["mlm", "simcse"]


def test_views_are_a_mean_over_rows():
    labels, nearest, chance = views_set(5)
    found = metrics.compute("views", labels, nearest, chance)
    assert found == pytest.approx({"probability": chance.mean(), "accuracy": nearest.mean()})
    assert np.isnan(
        list(metrics.compute("views", labels[:0], nearest[:0], chance[:0]).values())
    ).all()


def test_one_class_sets():
    scores = np.array([[0.2], [0.9], [0.4]])
    none, all_positive = np.zeros(3, int), np.ones(3, int)
    assert metrics.compute("binary", none, none, scores) == pytest.approx(
        {"accuracy": 1.0, "f1": 0.0, "mcc": 0.0, "average_precision": math.nan}, nan_ok=True
    )
    assert metrics.compute("binary", all_positive, all_positive, scores) == {
        "accuracy": 1.0,
        "f1": 1.0,
        "mcc": 0.0,
        "average_precision": 1.0,
    }


@pytest.mark.parametrize("label_type", SETS)
def test_no_rows_is_nan_throughout(label_type):
    columns = (column[:0] for column in SETS[label_type]())
    labels, predictions, scores = columns
    assert all(
        math.isnan(v) for v in metrics.compute(label_type, labels, predictions, scores).values()
    )
    bounds = intervals(label_type, labels, predictions, scores, resamples=10)
    assert np.isnan(list(bounds.values())).all()


@pytest.mark.parametrize("constant", ["labels", "predictions"])
def test_a_correlation_with_a_constant_is_nan(constant):
    # 0.1 has a rounded mean: the variance computed naively is not exactly 0.
    sides = {"labels": np.arange(7.0), "predictions": np.arange(7.0), constant: np.full(7, 0.1)}
    labels, predictions = sides["labels"], sides["predictions"]
    values = metrics.compute("number", labels, predictions, predictions[:, None])
    assert math.isnan(values["pearson"]) and math.isnan(values["spearman"])
    assert values["mse"] > 0
    bounds = intervals("number", labels, predictions, predictions[:, None], resamples=10)
    assert np.isnan(bounds["pearson"]).all() and np.isfinite(bounds["mse"]).all()


def test_a_diverged_model_scores_nan_and_has_no_interval():
    labels, predictions, scores = number_set(rows=20)
    predictions[3] = math.nan
    assert np.isnan(list(metrics.compute("number", labels, predictions, scores).values())).all()
    bounds = intervals("number", labels, predictions, scores, resamples=50)
    assert np.isnan(list(bounds.values())).all()
    labels, predictions, scores = binary_set(rows=20)
    scores[3] = math.nan
    values = metrics.compute("binary", labels, predictions, scores)
    assert math.isnan(values["average_precision"]) and values["accuracy"] > 0


def test_confusion_has_gold_rows_and_rejects_foreign_classes():
    labels, predictions = np.array([0, 0, 2, 2, 2]), np.array([0, 1, 0, 0, 2])
    assert metrics.confusion(labels, predictions, 3) == [[1, 1, 0], [0, 0, 0], [2, 0, 1]]
    with pytest.raises(ValueError):
        metrics.confusion(labels, predictions, 2)
    with pytest.raises(ValueError):
        metrics.compute("class", labels, predictions - 1, np.zeros((5, 3)))


@pytest.mark.parametrize("label_type", SETS)
def test_intervals_contain_the_score_narrow_with_rows_and_repeat_with_the_seed(label_type):
    small, large = SETS[label_type](rows=100), SETS[label_type](rows=2000)
    bounds = intervals(label_type, *small, resamples=400)
    narrower = intervals(label_type, *large, resamples=400)
    for name, point in metrics.compute(label_type, *small).items():
        low, high = bounds[name]
        assert low < point < high
        assert narrower[name][1] - narrower[name][0] < (high - low) / 2
    assert bounds == intervals(label_type, *small, resamples=400)
    assert bounds != intervals(label_type, *small, resamples=400, seed=1)


@pytest.mark.parametrize("label_type", SETS)
def test_intervals_are_percentiles_of_the_metric_of_resampled_rows(label_type, monkeypatch):
    monkeypatch.setattr(bootstrap, "CHUNK_ROWS", 7 * 30)  # several chunks, the last one short
    columns = SETS[label_type](rows=30)
    draws = [r for chunk in resampled_rows(30, 50, seed=3) for r in chunk]
    assert len(draws) == 50
    naive = [metrics.compute(label_type, *(column[rows] for column in columns)) for rows in draws]
    bounds = intervals(label_type, *columns, resamples=50, seed=3)
    for name, interval in bounds.items():
        expected = np.percentile([values[name] for values in naive], (2.5, 97.5))
        assert interval == pytest.approx(tuple(expected), abs=1e-12)


@pytest.mark.parametrize("label_type", SETS)
def test_metrics_asked_for_by_name_are_the_same_and_no_others(label_type):
    columns = (*SETS[label_type](rows=40), None, np.arange(40)[None])
    every = metrics.resampled_values(label_type, *columns)
    for name in METRICS[label_type]:
        assert metrics.resampled_values(label_type, *columns, names=[name]) == {name: every[name]}
    with pytest.raises(ValueError, match="mrr"):
        metrics.resampled_values(label_type, *columns, names=["mrr"])


def test_nan_resamples_are_ignored():
    # Many resamples of three rows hold no positive, or only one distinct row.
    labels, scores = np.array([0, 1, 0]), np.array([[0.1], [0.8], [0.9]])
    bounds = intervals("binary", labels, (scores[:, 0] > 0.5).astype(int), scores)
    assert np.isfinite(list(bounds.values())).all()
    numbers = np.array([0.0, 1.0, 5.0])
    bounds = intervals("number", numbers, numbers[::-1], numbers[:, None])
    assert np.isfinite(list(bounds.values())).all()


def test_the_trivial_model_knows_only_the_training_labels():
    predictions, scores = metrics.trivial("class", np.array([1, 1, 0, 2]), 3, num_classes=4)
    assert predictions.tolist() == [1, 1, 1]
    assert scores.tolist() == [[0.25, 0.5, 0.25, 0.0]] * 3
    predictions, scores = metrics.trivial("binary", np.array([1, 0, 0, 0]), 2)
    assert predictions.tolist() == [0, 0] and scores.tolist() == [[0.25], [0.25]]
    predictions, scores = metrics.trivial("binary", np.array([1, 1]), 1)
    assert predictions.tolist() == [1] and scores.tolist() == [[1.0]]
    predictions, scores = metrics.trivial("number", np.array([1.0, 2.0, 4.5]), 2)
    assert predictions.tolist() == [2.5, 2.5] and scores.tolist() == [[2.5], [2.5]]
    with pytest.raises(ValueError, match="training labels"):
        metrics.trivial("class", np.array([]), 3, num_classes=4)


def test_joint_and_overall_scores():
    values = {"sst": 0.5, "para": 0.8, "sts": 0.6}
    names = {"sst": "accuracy", "para": "accuracy", "sts": "pearson"}
    assert metrics.joint(values) == pytest.approx(1.9 / 3)
    assert metrics.overall_cs224n(values, names) == pytest.approx((0.5 + 0.8 + 0.8) / 3)
    assert metrics.overall_cs224n({"a": -1.0, "b": 1.0}, {"a": "spearman", "b": "pearson"}) == 0.5
    assert math.isnan(metrics.joint({**values, "sts": math.nan}))
    assert math.isnan(metrics.overall_cs224n({**values, "sts": math.nan}, names))


def test_improves_compares_nan_safely():
    assert metrics.improves(0.1, None) and metrics.improves(-1.0, math.nan)
    assert metrics.improves(0.51, 0.5) and not metrics.improves(0.5, 0.5)
    assert not metrics.improves(0.51, 0.5, min_delta=0.05)
    for best in (None, math.nan, 0.5):
        assert not metrics.improves(math.nan, best)


def test_importing_the_module_stays_light():
    code = "import sys, multitask.tasks.metrics; assert not {'torch', 'scipy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
