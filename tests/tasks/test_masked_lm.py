"""Masked tokens are counted over all texts."""

import math

import numpy as np
import pytest

from multitask.config.registry import task_type
from multitask.tasks.metrics import compute

pytestmark = pytest.mark.usefixtures("no_warnings")


def test_masked_tokens_are_counted_over_all_texts():
    # texts with 2, 0 and 3 masked tokens
    masked, right, losses = np.array([2, 0, 3]), np.array([1, 0, 3]), np.array([[2.0], [0], [1.5]])
    result = compute(task_type("tokens"), (masked, right, losses))
    assert result == pytest.approx({"accuracy": 4 / 5, "perplexity": math.exp(3.5 / 5)})
