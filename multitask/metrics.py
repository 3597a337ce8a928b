"""Scores of a whole evaluation set, their bootstrap intervals, and how scores are compared.

A leaf: numpy and scipy only, never torch. Eight label types:

- ``class``: labels and predictions int [N], scores = probabilities [N, C]
- ``binary``: labels and predictions 0/1 [N], scores = probability of 1 [N, 1]
- ``labels`` (several classes at once): labels and predictions 0/1 [N, C], scores = probabilities
  [N, C]
- ``number``: labels and predictions float [N], scores = the predictions [N, 1]
- ``tokens``: labels = masked tokens of each text, predictions = those predicted right (int [N]),
  scores = their summed negative log-likelihood [N, 1]; a metric is over all tokens of the rows
- ``views``: labels number each row's texts [N, texts]; predictions = 1 where the text that goes
  with the first is nearest to it of all candidates (int [N]), scores = its probability [N, 1]
- ``tags`` (of words) and ``span`` (an answer in a text): scores hold what was measured of each row,
  the columns of ``OUTCOMES`` [N, K]; labels and predictions are not looked at, but for their number

A score that is undefined is NaN, never an exception and never a warning: any metric of no rows, a
correlation where one side is constant or not finite, and the average precision of a set without
positives or with NaN scores (of a set with positives only it is 1). F1 follows scikit-learn: 0
where nothing is positive in labels or predictions (as are precision and recall of entities); macro
F1 averages over the classes that occur in either, so that a class missing from a small set costs
nothing. Of several classes at once F1 is over all decisions (micro), and ``exact_match`` is the
share of rows with all their classes right and no other. ``mcc`` is Matthews' correlation
coefficient, of several classes R_K (Gorodkin 2004), as scikit-learn has it: 0 where labels or
predictions are constant.
"""

import math
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from multitask.metric_names import CORRELATIONS, METRICS, OUTCOMES, UNLABELLED

Array = npt.NDArray[Any]

# What one chunk of resamples may hold, to bound memory: many rows or many classes.
CHUNK_ROWS = 1_000_000
CHUNK_RESAMPLES = 100


def compute(
    label_type: str,
    labels: Array,
    predictions: Array,
    scores: Array,
    num_classes: int | None = None,
) -> dict[str, float]:
    """Every scalar metric of ``label_type`` over the whole set.

    ``num_classes`` is the C of ``class`` (default: the columns of ``scores``). Raises ValueError
    for a label or prediction outside the classes.
    """
    every_row = np.arange(len(labels))[None]
    values = resampled_values(label_type, labels, predictions, scores, num_classes, every_row)
    return {name: float(value[0]) for name, value in values.items()}


def intervals(
    label_type: str,
    labels: Array,
    predictions: Array,
    scores: Array,
    num_classes: int | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """95 % percentile bootstrap interval (low, high) over rows, for every scalar metric.

    Resamples in which a metric is NaN are left out. A metric that is undefined on the set itself
    has the interval (NaN, NaN).
    """
    points = compute(label_type, labels, predictions, scores, num_classes)
    chunks = [
        resampled_values(label_type, labels, predictions, scores, num_classes, rows)
        for rows in resampled_rows(len(labels), resamples, seed)
    ]
    bounds = {}
    for name, point in points.items():
        values = np.concatenate([chunk[name] for chunk in chunks])
        bounds[name] = percentiles(values) if math.isfinite(point) else (math.nan, math.nan)
    return bounds


def percentiles(resampled: Array) -> tuple[float, float]:
    """95 % percentile interval of resampled values [R]; NaN among them are left out."""
    known = resampled[np.isfinite(resampled)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.percentile(known, (2.5, 97.5))
    return float(low), float(high)


def confusion(labels: Array, predictions: Array, num_classes: int) -> list[list[int]]:
    """Row counts [C][C]: rows are gold classes, columns are predicted ones.

    Raises ValueError for a label or prediction outside the classes.
    """
    every_row = np.arange(len(labels))[None]
    counts: list[list[int]] = _confusions(labels, predictions, num_classes, every_row)[0].tolist()
    return counts


def trivial(
    label_type: str, train_labels: Array, n: int, num_classes: int | None = None
) -> tuple[Array, Array]:
    """Predictions [n] and scores [n, C or 1] of a model that only knows the training labels.

    The majority class (the smallest of equals) with the training frequencies as scores, or the
    mean of the numbers; of several classes at once [n, C] those of more than half the rows. Raises
    ValueError without training labels.
    """
    if not len(train_labels):
        raise ValueError("the trivial baseline needs training labels")
    if label_type == "number":
        mean = float(np.mean(train_labels))
        return np.full(n, mean), np.full((n, 1), mean)
    if label_type == "labels":
        frequencies = np.asarray(train_labels, dtype=float).mean(axis=0)
        return np.tile((frequencies > 0.5).astype(np.int64), (n, 1)), np.tile(frequencies, (n, 1))
    classes = 2 if label_type == "binary" else num_classes or 0
    counts = np.bincount(np.asarray(train_labels, dtype=np.int64), minlength=classes)
    frequencies = counts / counts.sum()
    shown = frequencies[1:] if label_type == "binary" else frequencies
    return np.full(n, counts.argmax()), np.tile(shown, (n, 1))


def joint_tasks(label_types: Mapping[str, str]) -> list[str]:
    """The tasks whose mean counts; ``label_types`` by task.

    Tasks without labels (masked tokens, contrastive) serve the others: they do not count unless
    they are alone.
    """
    supervised = [task for task, kind in label_types.items() if kind not in UNLABELLED]
    return supervised or list(label_types)


def joint(values: Mapping[str, float]) -> float:
    """Plain mean over the tasks (the CS224N score of 2023); NaN if any value is NaN."""
    return statistics.fmean(values.values())


def overall_cs224n(values: Mapping[str, float], metrics: Mapping[str, str]) -> float:
    """The later CS224N score: the mean with a correlation r entered as (r + 1) / 2.

    ``values`` and ``metrics`` map each task to its score and to its metric's name.
    """
    return joint(
        {
            task: (value + 1) / 2 if metrics[task] in CORRELATIONS else value
            for task, value in values.items()
        }
    )


def improves(new: float, best: float | None, min_delta: float = 0.0) -> bool:
    """Whether ``new`` is above ``best`` by more than ``min_delta``.

    NaN never is; any number improves on None or NaN.
    """
    if math.isnan(new):
        return False
    return best is None or math.isnan(best) or new > best + min_delta


def resampled_rows(n: int, resamples: int, seed: int | Sequence[int]) -> Iterator[Array]:
    """Row indices drawn with replacement, [R, n] at a time, ``resamples`` in all."""
    generator = np.random.default_rng(seed)
    step = max(1, min(CHUNK_RESAMPLES, CHUNK_ROWS // max(n, 1)))
    for start in range(0, resamples, step):
        # Without rows the upper bound must still be positive.
        yield generator.integers(max(n, 1), size=(min(step, resamples - start), n))


def resampled_values(
    label_type: str,
    labels: Array,
    predictions: Array,
    scores: Array,
    num_classes: int | None,
    rows: Array,
    names: Sequence[str] = (),
) -> dict[str, Array]:
    """Metrics of each set of rows: ``rows`` is int [R, M], each value is [R].

    Only those in ``names``, or every one of ``label_type``. Raises ValueError for a label or
    prediction outside the classes, and for a name that is no metric of ``label_type``.
    """
    names = names or METRICS[label_type]
    if not set(names) <= set(METRICS[label_type]):
        raise ValueError(f"metrics of {label_type}: {METRICS[label_type]}, not {names}")
    if label_type == "labels":
        values = _label_values(np.asarray(labels) > 0.5, np.asarray(predictions) > 0.5, rows)
        return {name: values[name] for name in names}
    if label_type == "number":
        sides = [np.asarray(side, dtype=np.float64)[rows] for side in (labels, predictions)]
        return {name: _number_value(name, *sides) for name in names}
    if label_type == "views":
        shown = {"probability": scores[:, 0], "accuracy": predictions}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of no rows
            return {n: np.asarray(shown[n], float)[rows].mean(axis=1) for n in names}
    if label_type == "tokens":
        columns = (labels, predictions, scores[:, 0])
        masked, right, losses = (np.asarray(c, float)[rows].sum(axis=1) for c in columns)
        values = {"accuracy": _divide(right, masked)}
        values["perplexity"] = np.exp(_divide(losses, masked))
        return {name: values[name] for name in names}
    if label_type in OUTCOMES:
        return _outcome_values(label_type, scores, rows, names)
    classes = 2 if label_type == "binary" else num_classes or scores.shape[1]
    counts = _confusions(labels, predictions, classes, rows)
    return {
        name: _average_precision(labels, scores[:, 0], rows)
        if name == "average_precision"
        else _class_value(name, counts)
        for name in names
    }


def _outcome_values(
    label_type: str, outcomes: Array, rows: Array, names: Sequence[str]
) -> dict[str, Array]:
    """Metrics from what was measured of each row, [N, K] as in OUTCOMES: each [R].

    Of tags they are over all entities, and over all words, of the rows.
    """
    columns = zip(OUTCOMES[label_type], np.asarray(outcomes, float).T, strict=True)
    sums = {name: column[rows].sum(axis=1) for name, column in columns}
    if label_type == "span":
        return {name: _divide(sums[name], np.asarray(rows.shape[1], float)) for name in names}
    found, gold, predicted = sums["right"], sums["entities"], sums["predicted"]
    values = {
        "f1": 2 * found / np.maximum(gold + predicted, 1),
        "precision": found / np.maximum(predicted, 1),
        "recall": found / np.maximum(gold, 1),
        "accuracy": _divide(sums["right_words"], sums["words"]),
    }
    return {name: np.where(sums["words"] > 0, values[name], np.nan) for name in names}


def _label_values(gold: Array, predicted: Array, rows: Array) -> dict[str, Array]:
    """Metrics of several classes at once: bool [N, C] twice, int [R, M] to [R] each."""

    def counts(cells: Array) -> Array:
        """How often each class occurs in each set of rows: [R, C]."""
        return np.stack([column[rows].sum(axis=1) for column in cells.T], axis=1)

    right, known, found = counts(gold & predicted), counts(gold), counts(predicted)
    occurs = known + found > 0
    by_class = 2 * right / np.maximum(known + found, 1)
    together = (known + found).sum(axis=1)
    values = {
        "f1": 2 * right.sum(axis=1) / np.maximum(together, 1),
        "macro_f1": by_class.sum(axis=1) / np.maximum(occurs.sum(axis=1), 1),
        "exact_match": (gold == predicted).all(axis=1)[rows].sum(axis=1) / max(rows.shape[1], 1),
    }
    undefined = np.full(len(rows), np.nan)
    return {name: value if rows.shape[1] else undefined for name, value in values.items()}


def _divide(numerator: Array, denominator: Array) -> Array:
    """Elementwise quotient; 0 / 0 is NaN, silently."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Array = np.divide(numerator, denominator)
    return quotient


def _count(cells: Array, size: int) -> Array:
    """How often each of ``size`` values occurs in each row of ``cells`` [R, M]: int [R, size]."""
    shifted = cells + size * np.arange(len(cells))[:, None]
    return np.bincount(shifted.ravel(), minlength=size * len(cells)).reshape(len(cells), size)


def _confusions(labels: Array, predictions: Array, num_classes: int, rows: Array) -> Array:
    """Confusion matrix of each set of rows [R, M]: int [R, C, C], gold first."""
    pairs = (np.asarray(labels, dtype=np.int64), np.asarray(predictions, dtype=np.int64))
    cells = np.ravel_multi_index(pairs, (num_classes, num_classes))
    return _count(cells[rows], num_classes**2).reshape(-1, num_classes, num_classes)


def _class_value(name: str, counts: Array) -> Array:
    """A metric of the confusion matrices [R, C, C]: [R]."""
    if name == "accuracy":
        return _divide(counts.trace(axis1=1, axis2=2), counts.sum(axis=(1, 2)))
    if name == "mae":
        classes = np.arange(counts.shape[1])
        distance = np.abs(classes[:, None] - classes)
        return _divide((counts * distance).sum(axis=(1, 2)), counts.sum(axis=(1, 2)))
    if name == "mcc":
        return _matthews(counts)
    f1, occurs = _f1(counts)
    if name == "macro_f1":
        return _divide(f1.sum(axis=1), occurs.sum(axis=1))
    return np.where(counts.any(axis=(1, 2)), f1[:, 1], np.nan)


def _f1(counts: Array) -> tuple[Array, Array]:
    """F1 of each class and whether it occurs at all, both [R, C], from counts [R, C, C]."""
    hits = counts.diagonal(axis1=1, axis2=2)
    gold_and_predicted = counts.sum(axis=1) + counts.sum(axis=2)
    return 2 * hits / np.maximum(gold_and_predicted, 1), gold_and_predicted > 0


def _matthews(counts: Array) -> Array:
    """Matthews' correlation coefficient of confusion matrices [R, C, C]: [R]."""
    whole = counts.sum(axis=(1, 2)).astype(float)
    gold, predicted = counts.sum(axis=2).astype(float), counts.sum(axis=1).astype(float)
    together = counts.trace(axis1=1, axis2=2) * whole - (gold * predicted).sum(axis=1)
    spread = np.sqrt((whole**2 - (gold**2).sum(axis=1)) * (whole**2 - (predicted**2).sum(axis=1)))
    value = np.where(spread > 0, together / np.where(spread > 0, spread, 1.0), 0.0)
    return np.where(whole > 0, value, np.nan)


def _average_precision(labels: Array, scores: Array, rows: Array) -> Array:
    """Sum over score thresholds of (recall gained) x (precision there), for each set of rows.

    ``labels`` 0/1 [N], ``scores`` [N], ``rows`` [R, M]: [R]. Rows of equal score share a threshold.
    """
    if np.isnan(scores).any() or not len(scores):
        return np.full(len(rows), np.nan)
    order = np.argsort(-scores)
    thresholds = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    weights = _count(rows, len(order))[:, order]
    positives = np.cumsum(weights * labels[order], axis=1)[:, thresholds]
    retrieved = np.cumsum(weights, axis=1)[:, thresholds]
    precision = positives / np.maximum(retrieved, 1)
    gained = np.diff(positives, axis=1, prepend=0)
    return _divide((gained * precision).sum(axis=1), positives[:, -1])


def _number_value(name: str, labels: Array, predictions: Array) -> Array:
    """Pearson, Spearman (ties share their mean rank), mean squared error: [R, M] to [R]."""
    from scipy.stats import rankdata

    if name == "pearson":
        return _pearson(labels, predictions)
    if name == "spearman":
        return _pearson(rankdata(labels, axis=1), rankdata(predictions, axis=1))
    with np.errstate(all="ignore"):
        squares = ((labels - predictions) ** 2).sum(axis=1)
    return _divide(squares, np.asarray(labels.shape[1]))


def _pearson(left: Array, right: Array) -> Array:
    """Pearson correlation of each row: [R, M] twice to [R]; NaN where one side is constant."""
    from scipy.stats import pearsonr

    if left.shape[1] < 2:
        return np.full(len(left), np.nan)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        correlation: Array = np.asarray(pearsonr(left, right, axis=1).statistic)
    return correlation
