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
from collections.abc import Mapping, Sequence

import numpy as np

from multitask.tasks.base import Array, _divide
from multitask.tasks.classification import _average_precision, _class_value, _confusions
from multitask.tasks.metric_names import CORRELATIONS, METRICS, OUTCOMES, UNLABELLED
from multitask.tasks.multilabel import _label_values
from multitask.tasks.regression import _number_value


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
