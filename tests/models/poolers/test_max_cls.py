"""The maximum over the last layers' [CLS] vectors against the paper's formula."""

import pytest
import torch

from tests.support.pooler_inputs import LENGTHS, make_pooler, sequences

D, LAYERS = 8, 4


@pytest.mark.parametrize("last", [1, 2, 4])
def test_the_formula(last):
    pooler = make_pooler("max_cls", D, LAYERS, last=last)
    layers = range(LAYERS - last + 1, LAYERS + 1)
    assert (pooler.layers, pooler.tokens) == (tuple(layers), "first")
    hidden, mask = sequences(layers, D)
    result = pooler({n: state[:, :1] for n, state in hidden.items()}, mask)
    for i in range(len(LENGTHS)):
        rows = [hidden[n][i, 0].tolist() for n in layers]
        assert result[i].tolist() == [max(values) for values in zip(*rows, strict=True)]


def test_one_layer_is_cls():
    hidden, mask = sequences([LAYERS], D)
    one, cls = make_pooler("max_cls", D, LAYERS, last=1), make_pooler("cls", D, LAYERS)
    assert torch.equal(one(hidden, mask), cls(hidden, mask))


@pytest.mark.parametrize("name", ["cls", "max_cls"])
def test_it_has_no_parameters(name):
    assert not list(make_pooler(name, D, LAYERS).parameters())
