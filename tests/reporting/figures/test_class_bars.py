"""The bars of each class: their numbers against scikit-learn, and that they are drawn."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, matthews_corrcoef

from multitask.reporting.figures.class_bars import by_class, class_bars
from multitask.store.saved import TaskReport

CLASSES = ["rare", "a name that is rather long for an axis", "frequent", "never"]


@pytest.fixture(scope="module")
def case():
    generator = np.random.default_rng(0)
    gold = generator.random((80, 4)) < [0.1, 0.4, 0.8, 0.0]
    predicted = np.where(generator.random((80, 4)) < 0.8, gold, ~gold)
    predicted[:, 3] = False
    records = [
        {
            "label": np.flatnonzero(one).tolist(),
            "prediction": np.flatnonzero(other).tolist(),
            "scores": other.astype(float).tolist(),
        }
        for one, other in zip(gold, predicted, strict=True)
    ]
    result = TaskReport(label_type="labels", classes=CLASSES, metric="f1", dev={"rows": 80})
    return gold, predicted, records, result


def test_the_numbers_are_those_of_each_class_alone(case):
    gold, predicted, records, result = case
    for values, one, other in zip(by_class(result, records), gold.T, predicted.T, strict=True):
        f1 = f1_score(one, other, zero_division=0)
        assert values == pytest.approx([one.mean(), f1, matthews_corrcoef(one, other)])


def test_each_class_has_its_bars_the_most_frequent_on_top(case):
    gold, _, records, result = case
    (axes,) = class_bars("etpc", result, [*records, {**records[0], "label": None}]).axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels[-1] == "frequent" and len(labels) == 4
    shares, *others = axes.containers
    assert [bar.get_width() for bar in shares] == pytest.approx(sorted(gold.mean(axis=0)))
    assert all(len(bars) == 4 for bars in others) and len(others) == 2
