"""Several poolings side by side against each alone."""

import pytest
import torch

from tests.support.pooler_inputs import make_pooler, sequences

D, LAYERS = 5, 4


@pytest.mark.parametrize("parts", [["cls", "mean"], ["mean", "avg_first_last"], ["cls", "cls"]])
def test_its_parts_side_by_side(parts):
    hidden, mask = sequences(range(LAYERS + 1), D)
    pooler = make_pooler("concat", D, LAYERS, parts=parts)
    assert pooler.output_dim == 2 * D
    assert pooler.tokens == ("first" if parts == ["cls", "cls"] else "all")
    expected = [make_pooler(name, D, LAYERS)(hidden, mask) for name in parts]
    assert torch.equal(pooler(hidden, mask), torch.cat(expected, dim=1))


def test_each_part_has_its_options():
    hidden, mask = sequences(range(LAYERS + 1), D)
    parts = [{"name": "max_cls", "last": 2}, "mean", {"name": "avg_first_last", "first": 0}]
    pooler = make_pooler("concat", D, LAYERS, parts=parts)
    assert set(pooler.layers) == {0, LAYERS - 1, LAYERS}
    expected = [
        make_pooler("max_cls", D, LAYERS, last=2)(hidden, mask),
        make_pooler("mean", D, LAYERS)(hidden, mask),
        make_pooler("avg_first_last", D, LAYERS, first=0)(hidden, mask),
    ]
    assert torch.equal(pooler(hidden, mask), torch.cat(expected, dim=1))
