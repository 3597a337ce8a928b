"""From a config to the model: what is built, shared and refused."""

import pytest
import torch

from multitask.models.build import assemble
from multitask.models.pretrained import load_pretrained
from multitask.utils.errors import UserError
from tests.support.small_models import CONTEXT, batch, scores_of


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["tasks.sst.pooling={name: mean, layers: 2}"], "tasks.sst.pooling.* no option 'layers'"),
        (
            ["tasks.sst.head={name: classification, class_weights: [1]}"],
            "tasks.sst.head.* 5 numbers",
        ),
        (["tasks.sst.projection={name: tanh, output_dim: 0}"], "tasks.sst.projection.* at least 1"),
        (
            ["tasks.sst.projection={name: linear, output_dim: 7}", "tasks.sst.head.linear=3"],
            "tasks.sst.head.* no option 'linear'",
        ),
    ],
)
def test_bad_options_name_their_place(make, changes, message):
    with pytest.raises(UserError, match=message) as caught:
        make(*changes)
    assert "\n" not in str(caught.value)


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["tasks.qqp.eval_pooling=hire"], r"tasks\.qqp\.eval_pooling: 'hire' has parameters"),
        (
            ["tasks.qqp.eval_pooling=concat"],
            r"tasks\.qqp\.eval_pooling: 'concat' gives 64 numbers, the head was built for 32",
        ),
        (
            ["encoder.implementation=transformers", "tasks.sts.adapter=low_rank"],
            r"tasks\.sts\.adapter: .* our own encoder",
        ),
    ],
)
def test_what_does_not_fit_the_encoder_or_the_head_says_where(make, changes, message):
    with pytest.raises(UserError, match=message):
        make(*changes)


def test_a_shared_head_is_not_built_twice(make):
    model = make("tasks.more={share_head: sst, data: {train: ids-sst-dev.csv}}")
    assert set(model.tasks) == {"sst", "qqp", "sts"}
    assert model.module("more") is model.module("sst")
