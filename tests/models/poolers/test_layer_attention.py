"""Layer-wise attention against the double loop of its paper."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from multitask.config.registry import build
from multitask.models.poolers.layer_attention import LayerAttentionPooler

B, D, LAYERS, WIDTH = 3, 5, 4, 6
LENGTHS = [6, 2, 4]
CONTEXT = {"dim": D, "num_layers": LAYERS}
VARIANTS = ("cls_all", "avg_all", "cls_all+avg_all")
NONE = lambda x: x  # noqa: E731


def states(seed=0):
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.arange(WIDTH)[None] < torch.tensor(LENGTHS)[:, None]).long()
    hidden = {
        layer: torch.randn(B, WIDTH, D, generator=generator, dtype=torch.float64)
        for layer in range(LAYERS + 1)
    }
    return hidden, mask


def make(name, **options):
    torch.manual_seed(0)
    pooler = build("pooling", name, options, CONTEXT).double().eval()
    for parameter in pooler.parameters():  # large enough that alpha is not uniform
        nn.init.normal_(parameter, std=0.8)
    return pooler


def leaky(x, slope):
    return np.where(x >= 0, x, slope * x)


def naive_alpha(pooler, hidden, row, variant, layers, scale, norm, act):
    """alpha [N, N] and the values [N, d] of one sentence, by the double loop of the paper."""
    length = LENGTHS[row]
    cls = [hidden[n][row, 0].numpy() for n in layers]
    means = [hidden[n][row, :length].numpy().mean(0) for n in layers]
    first = means if variant == "avg_all" else cls
    source = cls if variant == "cls_all" else means
    weight = {n: p.detach().numpy() for n, p in pooler.named_parameters()}
    queries = [act(weight["query.weight"] @ x) for x in first]
    keys = [act(weight["key.weight"] @ y) for y in source]
    alpha = np.zeros((len(layers), len(layers)))
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            alpha[i, j] = sum(a * b for a, b in zip(query, key, strict=True)) / scale
        if norm == "softmax":
            alpha[i] = [math.exp(value) for value in alpha[i]]
        alpha[i] = alpha[i] / sum(alpha[i])
    return alpha, np.array([act(weight["value.weight"] @ y) for y in source])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize(
    ("options", "first", "scale", "slope"),
    [
        ({}, 0, LAYERS + 1, 11 / 48),
        ({"include_embeddings": False, "act": "leaky_relu"}, 1, LAYERS, 11 / 48),
        ({"scale": "sqrt_d", "act": "none"}, 0, math.sqrt(D), 1.0),
        ({"scale": 1, "norm": "sum"}, 0, 1, 11 / 48),
    ],
)
def test_equals_the_double_loop_of_the_paper(variant, concat, options, first, scale, slope):
    pooler = make("layer_attention", variant=variant, concat_cls_last=concat, **options)
    hidden, mask = states()
    layers = list(range(first, LAYERS + 1))
    assert list(pooler.layers) == layers
    actual, importance = pooler(hidden, mask), pooler.importance(hidden, mask)
    assert importance.shape == (B, len(layers))
    torch.testing.assert_close(importance.sum(1), torch.ones(B, dtype=torch.float64))
    for row in range(B):
        alpha, values = naive_alpha(
            pooler,
            hidden,
            row,
            variant,
            layers,
            scale,
            options.get("norm", "softmax"),
            lambda x: leaky(x, slope),
        )
        mixed = np.zeros(D)
        for i in range(len(layers)):
            for j in range(len(layers)):
                mixed += alpha[i, j] * values[j] / len(layers)
        expected = np.concatenate([hidden[LAYERS][row, 0].numpy(), mixed]) if concat else mixed
        np.testing.assert_allclose(actual[row].detach().numpy(), expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(
            importance[row].detach().numpy(), alpha.mean(0), rtol=1e-10, atol=1e-12
        )


def test_new_weights_are_those_of_the_authors_and_attend_almost_uniformly():
    """Specification: normal with deviation .02, entropy of alpha .9995 ln N."""
    torch.manual_seed(0)
    pooler = LayerAttentionPooler(dim=256, num_layers=12).eval()
    for parameter in pooler.parameters():
        assert parameter.isfinite().all() and abs(parameter.std().item() - 0.02) < 1e-3
    hidden = {layer: torch.randn(4, 3, 256) for layer in pooler.layers}
    weights = pooler.importance(hidden, torch.ones(4, 3, dtype=torch.int64))
    entropy = -(weights * weights.log()).sum(1) / math.log(13)
    assert (entropy > 0.999).all()


def test_rrelu_draws_in_training_and_is_fixed_in_evaluation():
    pooler = make("layer_attention")
    hidden, mask = states()
    assert torch.equal(pooler(hidden, mask), pooler(hidden, mask))
    pooler.train()
    assert not torch.equal(pooler(hidden, mask), pooler(hidden, mask))
    calm = make("layer_attention", act="leaky_relu").train()
    assert torch.equal(calm(hidden, mask), make("layer_attention")(hidden, mask))


def test_a_watch_leaves_the_names_of_the_weights_alone():
    pooler = make("layer_attention")
    assert set(pooler.state_dict()) == {"query.weight", "key.weight", "value.weight"}
    assert pooler.scored == pooler.layers and not pooler.rectified


def test_a_sentence_of_which_one_layer_differs_looks_at_it():
    """The weights are those of the layers in order, not of another axis."""
    pooler = make("layer_attention", variant="cls_all", act="none", scale=1)
    for linear in (pooler.query, pooler.key):
        nn.init.eye_(linear.weight)
    hidden = {layer: torch.ones(1, 1, D, dtype=torch.float64) for layer in pooler.layers}
    hidden[3] = hidden[3] * 5
    weights = pooler.importance(hidden, torch.ones(1, 1, dtype=torch.int64))
    assert weights[0].argmax() == 3 and weights[0, 3] > 0.99
