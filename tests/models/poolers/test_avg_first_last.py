"""The mean of two layers' token means against a plain loop."""

import pytest
import torch

from multitask.utils.errors import UserError
from tests.support.pooler_inputs import LENGTHS, make_pooler, sequences

D, LAYERS = 5, 4


@pytest.mark.parametrize("first", [0, 1])
def test_the_mean_of_two_means(first):
    hidden, mask = sequences(range(LAYERS + 1), D)
    result = make_pooler("avg_first_last", D, LAYERS, first=first)(hidden, mask)
    for row, length in enumerate(LENGTHS):
        means = [hidden[layer][row, :length].mean(0) for layer in (first, LAYERS)]
        torch.testing.assert_close(result[row], sum(means) / 2, rtol=1e-12, atol=1e-12)


def test_the_first_layer_is_one_of_two():
    with pytest.raises(UserError, match="must be one of"):
        make_pooler("avg_first_last", D, LAYERS, first=2)
