"""The features of a pair: their names, and when the order of the pair matters."""

from itertools import combinations

import pytest
import torch

from heads.siamese_paraphrase import FEATURES
from multitask.config.registry import resolve
from multitask.utils.errors import UserError
from tests.support.single_heads import D, make_head, vectors

FEATURE_SETS = [list(names) for size in range(1, 5) for names in combinations(FEATURES, size)]


@pytest.mark.parametrize("features", FEATURE_SETS, ids="-".join)
def test_order_matters_exactly_when_a_side_is_a_feature(features):
    head = make_head("siamese_paraphrase", {"features": features})
    u, v = vectors(head)
    swapped_is_same = torch.allclose(head(u, v), head(v, u), rtol=0, atol=1e-12)
    assert swapped_is_same == (not {"u", "v"} & set(features))
    assert head.order_matters != swapped_is_same


@pytest.mark.parametrize("features", ["uv", "u", ["u", "u"], []])
def test_features_are_a_list_of_different_names(features):
    """Outside the registry, which checks types, too: the text "uv" is no list."""
    with pytest.raises(ValueError, match="features must be a list"):
        resolve("head", "siamese_paraphrase")(D, features)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": []}, "features must be a list"),
        ({"features": ["u", "w"]}, "features must be a list"),
        ({"features": ["u", "u"]}, "features must be a list"),
        ({"features": "uv"}, "features must be"),
        ({"feature": ["u"]}, "did you mean 'features'"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(UserError, match=message) as caught:
        make_head("siamese_paraphrase", options)
    assert "\n" not in str(caught.value)
