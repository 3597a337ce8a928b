"""The loss of one logit at its limits."""

import pytest
import torch

from multitask.utils.errors import UserError
from tests.support.single_heads import make_head


def test_binary_loss_is_finite_for_a_sure_mistake():
    head = make_head("binary")
    assert head.criterion(torch.tensor([300.0, -300.0]), torch.tensor([0, 1])).item() == 300


def test_it_has_no_options():
    with pytest.raises(UserError, match="no option 'linear'"):
        make_head("binary", {"linear": True})
