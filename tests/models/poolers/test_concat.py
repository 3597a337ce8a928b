"""Several poolings side by side against each alone."""

import pytest
import torch

from multitask.utils.errors import UserError
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


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (["cls"], "two or more"),
        (["cls", "tokens"], "two or more"),
        (["cls", {"name": "tokens"}], "two or more"),
        (["cls", "mena"], "did you mean 'mean'"),
        (["cls", {"last": 2}], "each of parts must be a name or {name: ..., options}"),
        (["cls", {"name": "max_cls", "lats": 2}], "no option 'lats' .did you mean 'last'"),
        (["cls", {"name": "max_cls", "last": "2"}], "last must be a whole number, not '2'"),
        (["cls", 3], "parts must be a list of methods"),
    ],
)
def test_what_does_not_go_together(parts, said):
    with pytest.raises(UserError, match=said):
        make_pooler("concat", D, LAYERS, parts=parts)
