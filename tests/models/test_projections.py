"""The layer between pooler and head against W x + b written out."""

import math

import pytest
import torch

from multitask.config.registry import PROJECTIONS, build
from multitask.utils.errors import UserError

D = 5
ENCODER = 3  # width of the encoder, where a pooling has another one


def pooler_weights(dim=D):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(dim, dim, generator=generator), torch.randn(dim, generator=generator)


WEIGHTS = pooler_weights()


def make(name, options=(), weights=WEIGHTS):
    torch.manual_seed(0)
    context = {"dim": D, "pooler_weights": weights, "encoder_dim": ENCODER}
    return build("projection", name, dict(options), context)


ACTIVATION = {"linear": lambda x: x, "tanh": math.tanh, "bert_pooler": math.tanh, "mlp": math.tanh}
CASES = [(name, {}) for name in PROJECTIONS if name != "mlp_batchnorm"] + [
    ("linear", {"output_dim": 3}),
    ("tanh", {"output_dim": 8}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_equals_the_formula(name, options):
    projection = make(name, options).double()
    assert projection.output_dim == options.get("output_dim", ENCODER if name == "mlp" else D)
    x = torch.randn(4, D, dtype=torch.float64)
    actual = projection(x)
    assert actual.shape == (4, projection.output_dim)
    weight, bias = projection.dense.weight.tolist(), projection.dense.bias.tolist()
    for i, row in enumerate(x.tolist()):
        expected = [
            ACTIVATION[name](
                math.fsum(w * v for w, v in zip(weight[k], row, strict=True)) + bias[k]
            )
            for k in range(projection.output_dim)
        ]
        assert actual[i].tolist() == pytest.approx(expected, rel=1e-12)


def test_bert_pooler_holds_a_copy_of_the_checkpoints_weights():
    first, second = make("bert_pooler"), make("bert_pooler")
    for projection in (first, second):
        assert torch.equal(projection.dense.weight, WEIGHTS[0])
        assert torch.equal(projection.dense.bias, WEIGHTS[1])
        assert all(p.requires_grad for p in projection.parameters())
    with torch.no_grad():
        first.dense.weight.zero_()
    assert torch.equal(second.dense.weight, WEIGHTS[0])
    assert WEIGHTS[0].any()


@pytest.mark.parametrize(
    ("name", "options", "weights", "message"),
    [
        ("bert_pooler", {}, None, "no pooler of width 5; use `projection: tanh`"),
        ("bert_pooler", {}, pooler_weights(4), "no pooler of width 5"),
        ("bert_pooler", {"output_dim": 5}, WEIGHTS, "no option 'output_dim'"),
        ("linear", {"output_dim": 0}, WEIGHTS, "output_dim must be at least 1"),
        ("tanh", {"output_dim": -3}, WEIGHTS, "output_dim must be at least 1"),
        ("tanh", {"output_dim": "wide"}, WEIGHTS, "tanh"),
        ("linear", {"width": 5}, WEIGHTS, "no option 'width'"),
    ],
)
def test_bad_options_are_one_line(name, options, weights, message):
    with pytest.raises(UserError, match=message) as caught:
        make(name, options, weights)
    assert "\n" not in str(caught.value)


def test_mlp_batchnorm_is_difcses_projector():
    """Row by row from the batch's means and variances, in training; nothing learned at the end."""
    projection = make("mlp_batchnorm").double().train()
    assert projection.output_dim == ENCODER
    names = {name for name, _ in projection.named_parameters()}
    assert names == {"layers.0.weight", "layers.1.weight", "layers.1.bias", "layers.3.weight"}
    x = torch.randn(6, D, dtype=torch.float64)
    actual = projection(x)

    def normed(values):
        return (values - values.mean(0)) / (values.var(0, unbiased=False) + 1e-5).sqrt()

    first, last = projection.layers[0].weight, projection.layers[3].weight
    expected = normed(normed(x @ first.T).clamp(min=0) @ last.T)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
