"""Texts that are compared: means over rows."""

import numpy as np
import pytest

from multitask.config.registry import task_type
from multitask.tasks.metrics import compute
from tests.tasks.cases.contrastive import columns

pytestmark = pytest.mark.usefixtures("no_warnings")


def test_views_are_a_mean_over_rows():
    labels, nearest, chance = columns(5)
    result = compute(task_type("views"), (labels, nearest, chance))
    assert result == pytest.approx({"probability": chance.mean(), "accuracy": nearest.mean()})
    assert np.isnan(
        list(compute(task_type("views"), (labels[:0], nearest[:0], chance[:0])).values())
    ).all()
