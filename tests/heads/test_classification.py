"""Class weights and label smoothing against scikit-learn and torch."""

import math

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from multitask.models.weights import without_memory
from multitask.utils.errors import UserError
from tests.support.single_heads import COUNTS, B, C, make_head, vectors


def test_balanced_weights_are_those_of_scikit_learn():
    y = np.repeat(np.arange(C), COUNTS)
    expected = compute_class_weight("balanced", classes=np.arange(C), y=y)
    actual = make_head("classification", {"class_weights": "balanced"}).class_weights
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert actual[torch.from_numpy(y)].mean().item() == pytest.approx(1)  # the loss keeps its scale


def test_without_weights_the_loss_is_that_of_torch():
    head = make_head("classification", {"label_smoothing": 0.1})
    scores, gold = head(*vectors(head)), torch.tensor([0, 2, 1, 2, 0])
    expected = torch.nn.CrossEntropyLoss(label_smoothing=0.1)(scores, gold)
    torch.testing.assert_close(head.criterion(scores, gold), expected)


@pytest.mark.parametrize("given", ["balanced", [0.5, 2.0, 1.0]])
def test_weights_can_be_rebuilt_without_memory(given):
    """So a saved run is rebuilt before its tensors are loaded."""
    with without_memory():
        head = make_head("classification", {"class_weights": given})
    assert head.class_weights.is_meta and head.class_weights.shape == (C,)


def test_rows_of_weightless_classes_alone_have_no_loss():
    head = make_head("classification", {"class_weights": [1, 0, 1]})  # a division by weights is NaN
    scores = head(*vectors(head))
    assert head.criterion(scores, torch.ones(B, dtype=torch.int64)).item() == 0


@pytest.mark.parametrize(
    ("options", "context", "message"),
    [
        ({"label_smoothing": 1.0}, {}, r"label_smoothing must be in \[0, 1\)"),
        ({"label_smoothing": -0.1}, {}, r"label_smoothing must be in \[0, 1\)"),
        ({"label_smoothing": math.nan}, {}, r"label_smoothing must be in"),
        ({"class_weights": "even"}, {}, "`balanced`"),
        ({"class_weights": 2.0}, {}, "class_weights must be"),
        ({"class_weights": [1.0, 2.0]}, {}, "must be 3 numbers"),
        ({"class_weights": []}, {}, "must be 3 numbers"),
        ({"class_weights": [1.0, 2.0, -1.0]}, {}, "none negative"),
        ({"class_weights": [0.0, 0.0, 0.0]}, {}, "must not all be 0"),
        ({"class_weights": [1.0, 2.0, math.nan]}, {}, "must be 3 numbers"),
        ({"class_weights": [1.0, 2.0, "a lot"]}, {}, "a lot"),
        ({"class_weights": [1.0, 2.0, 1e300]}, {}, "expected a number of at most"),
        (
            {"class_weights": "balanced"},
            {"class_counts": [3, 0, 1]},
            "a training row of every class",
        ),
    ],
)
def test_bad_options_are_one_line(options, context, message):
    with pytest.raises(UserError, match=message) as caught:
        make_head("classification", options, **context)
    assert "\n" not in str(caught.value)
