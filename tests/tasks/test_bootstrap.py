"""Intervals of every task type's metrics."""

import numpy as np
import pytest

from multitask.config.registry import TASK_TYPES, task_type
from multitask.tasks import bootstrap
from multitask.tasks.bootstrap import intervals, resampled_rows
from multitask.tasks.metrics import compute
from tests.support.cases import type_case

pytestmark = pytest.mark.usefixtures("no_warnings")


@pytest.mark.parametrize("label_type", TASK_TYPES)
def test_intervals_contain_the_score_narrow_with_rows_and_repeat_with_the_seed(label_type):
    columns = type_case(label_type).columns
    small, large = columns(rows=100), columns(rows=2000)
    bounds = intervals(task_type(label_type), small, resamples=400)
    narrower = intervals(task_type(label_type), large, resamples=400)
    for name, point in compute(task_type(label_type), small).items():
        low, high = bounds[name]
        assert low < point < high
        assert narrower[name][1] - narrower[name][0] < (high - low) / 2
    assert bounds == intervals(task_type(label_type), small, resamples=400)
    assert bounds != intervals(task_type(label_type), small, resamples=400, seed=1)


@pytest.mark.parametrize("label_type", TASK_TYPES)
def test_intervals_are_percentiles_of_the_metric_of_resampled_rows(label_type, monkeypatch):
    monkeypatch.setattr(bootstrap, "CHUNK_ROWS", 7 * 30)  # several chunks, the last one short
    columns = type_case(label_type).columns(rows=30)
    draws = [r for chunk in resampled_rows(30, 50, seed=3) for r in chunk]
    assert len(draws) == 50
    naive = [
        compute(task_type(label_type), tuple(column[rows] for column in columns)) for rows in draws
    ]
    bounds = intervals(task_type(label_type), columns, resamples=50, seed=3)
    for name, interval in bounds.items():
        expected = np.percentile([values[name] for values in naive], (2.5, 97.5))
        assert interval == pytest.approx(tuple(expected), abs=1e-12)
