"""Without dropout nothing is random, and all else is as in training."""

import inspect

import pytest
import torch

from multitask.config.registry import ADAPTERS, POOLERS, PROJECTIONS, resolve
from multitask.data.collate import separate
from multitask.models.encoders.bitlinear import BitLinear, set_strength
from multitask.models.noise import without_dropout
from tests.support.small_models import batch, scores_of

WANTED = {"last": 2, "dropout": 0.2}  # of the options, where there are such


def chosen(kind, name):
    """The override that chooses a registered part, with its dropout."""
    known = inspect.signature(resolve(kind, name)).parameters
    options = "".join(f", {key}: {value}" for key, value in WANTED.items() if key in known)
    return f"{kind}={{name: {name}{options}}}"


PARTS = [
    *(chosen("pooling", name) for name in POOLERS if name != "tokens"),
    *(chosen("projection", name) for name in PROJECTIONS),
    *(chosen("adapter", name) for name in ADAPTERS),
]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("implementation", ["own", "transformers"])
def test_two_passes_are_equal_and_the_mode_is_restored(make, part, implementation):
    if implementation == "transformers" and part.startswith("adapter"):
        pytest.skip("only our own encoder has adapters")
    model = make(f"tasks.sst.{part}", f"encoder.implementation={implementation}").train()
    modes = [module.training for module in model.modules()]
    rows = batch("sst")
    with without_dropout(model):
        torch.manual_seed(0)
        first = scores_of(model, "sst", rows)
        assert torch.equal(scores_of(model, "sst", rows), first)
    assert [module.training for module in model.modules()] == modes
    assert not torch.equal(scores_of(model, "sst", rows), scores_of(model, "sst", rows))


def test_a_frozen_encoder_stays_in_evaluation_mode(make):
    model = make()
    model.freeze(model.shared())
    with without_dropout(model):
        model(separate({"sst": batch("sst")}))
    assert model.training and not model.encoder.training


def test_without_dropout_a_ternary_encoder_keeps_its_strength(make):
    model = make("encoder.bitlinear={gradual: 0.5}").train()
    set_strength(model.encoder, 0.5, 0.25)
    layer = next(module for module in model.encoder.modules() if isinstance(module, BitLinear))
    strength = layer.strength
    assert 0 < strength < 1
    hidden = torch.randn(3, layer.in_features)
    expected = layer(hidden)
    with without_dropout(model):
        assert torch.equal(layer(hidden), expected)
    assert not torch.equal(layer.eval()(hidden), expected)
