"""The confusion matrix."""

import numpy as np
import pytest

from multitask.config.registry import task_type
from multitask.tasks.confusion import confusion
from multitask.tasks.metrics import compute

pytestmark = pytest.mark.usefixtures("no_warnings")


def test_confusion_has_gold_rows_and_rejects_foreign_classes():
    labels, predictions = np.array([0, 0, 2, 2, 2]), np.array([0, 1, 0, 0, 2])
    assert confusion(labels, predictions, 3) == [[1, 1, 0], [0, 0, 0], [2, 0, 1]]
    with pytest.raises(ValueError):
        confusion(labels, predictions, 2)
    with pytest.raises(ValueError):
        compute(task_type("class"), (labels, predictions - 1, np.zeros((5, 3))))
