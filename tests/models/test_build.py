"""From a config to the model: what is built, shared and refused."""

import pytest
import torch

from multitask.models.build import assemble
from multitask.models.pretrained import load_pretrained
from multitask.utils.errors import UserError
from tests.support.small_models import CONTEXT, batch, scores_of


@pytest.mark.parametrize(
    "name", ["adapters", "encoder", "joint", "heads", "layer_1", "longest", "type", "train", "keys"]
)
def test_names_that_mean_something_else_are_refused(configure, name):
    """`joint` is a key of best.json, and a module has methods: each was a traceback or worse."""
    config = configure()
    config.tasks[name] = config.tasks.pop("sst")
    encoder = load_pretrained(config)
    with pytest.raises(UserError, match=f"tasks.{name}: the name is taken"):
        assemble(config, encoder, {**CONTEXT, name: CONTEXT["sst"]})


def test_a_projection_may_change_the_width(make):
    model = make("tasks.qqp.projection={name: linear, output_dim: 7}").eval()
    assert model.head("qqp").linear.in_features == 7
    assert scores_of(model, "qqp", batch("qqp")).shape == (4,)


def test_heads_start_alike_with_an_adapter_and_without(make):
    plain = make().state_dict()
    adapted = make("tasks.sts.adapter={name: pal, size: 4, heads: 2}").state_dict()
    assert set(plain) < set(adapted)
    assert all(torch.equal(plain[name], adapted[name]) for name in plain)


def test_a_shared_head_is_not_built_twice(make):
    model = make("tasks.more={share_head: sst, data: {train: ids-sst-dev.csv}}")
    assert set(model.tasks) == {"sst", "qqp", "sts"}
    assert model.module("more") is model.module("sst")
