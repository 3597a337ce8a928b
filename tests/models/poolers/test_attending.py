"""The poolers with an attention layer, against the formulas as plain loops, and what it must be."""

import math

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from multitask.models.poolers.attending import attend
from tests.support.pooler_inputs import LENGTHS, make_pooler, sequences

D, LAYERS, HEADS = 8, 4, 2
WITH_MHA = ["mha", "max_seq_mha", "mean_seq_mha"]


def make(name, dim=D, num_layers=LAYERS, **options):
    return make_pooler(name, dim, num_layers, **options)


def naive_over_layers(kind, rows):
    """Each layer's tokens, [layer][token][dim], as one sequence [token][dim]."""
    tokens, dims = len(rows[0]), len(rows[0][0])
    columns = [[[row[t][j] for row in rows] for j in range(dims)] for t in range(tokens)]
    if kind == "mean":
        return [[math.fsum(values) / len(values) for values in token] for token in columns]
    return [[max(values) for values in token] for token in columns]


def naive_linear(weight, bias, vector):
    return [
        math.fsum(w * x for w, x in zip(row, vector, strict=True)) + b
        for row, b in zip(weight, bias, strict=True)
    ]


def naive_mha(attention, sequence, heads):
    """Equations 8 and 9 for the query [CLS] (Vaswani et al. 2017), number by number."""
    dim = len(sequence[0])
    weight, bias = attention.in_proj_weight.tolist(), attention.in_proj_bias.tolist()
    cut = [slice(part * dim, (part + 1) * dim) for part in range(3)]
    query = naive_linear(weight[cut[0]], bias[cut[0]], sequence[0])
    keys = [naive_linear(weight[cut[1]], bias[cut[1]], token) for token in sequence]
    values = [naive_linear(weight[cut[2]], bias[cut[2]], token) for token in sequence]
    size, joined = dim // heads, []
    for head in range(heads):
        columns = range(head * size, (head + 1) * size)
        scores = [math.fsum(query[j] * key[j] for j in columns) / math.sqrt(size) for key in keys]
        exps = [math.exp(score) for score in scores]
        joined += [
            math.fsum(e * value[j] for e, value in zip(exps, values, strict=True)) / math.fsum(exps)
            for j in columns
        ]
    return naive_linear(
        attention.out_proj.weight.tolist(), attention.out_proj.bias.tolist(), joined
    )


def randomised(pooler):
    """The same with biases that are not zero."""
    for parameter in pooler.parameters():
        nn.init.normal_(parameter, std=0.4)
    return pooler.double().eval()


@pytest.mark.parametrize(("name", "kind"), [("max_seq_mha", "max"), ("mean_seq_mha", "mean")])
@pytest.mark.parametrize("last", [1, 3, 4])
def test_pooled_sequences_with_attention_are_the_formula(name, kind, last):
    pooler = randomised(make(name, last=last, heads=HEADS))
    layers = range(LAYERS - last + 1, LAYERS + 1)
    assert (pooler.layers, pooler.tokens) == (tuple(layers), "all")
    hidden, mask = sequences(layers, D)
    actual = pooler(hidden, mask)
    for i, length in enumerate(LENGTHS):
        sequence = naive_over_layers(kind, [hidden[n][i, :length].tolist() for n in layers])
        expected = naive_mha(pooler.attention, sequence, HEADS)
        assert actual[i].tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_mha_is_the_formula_over_the_last_layer_alone(residual, norm):
    pooler = randomised(make("mha", heads=HEADS, residual=residual, norm=norm))
    assert (pooler.layers, pooler.tokens) == ((LAYERS,), "all")
    hidden, mask = sequences([LAYERS], D)
    actual = pooler(hidden, mask)
    for i, length in enumerate(LENGTHS):
        sequence = hidden[LAYERS][i, :length].tolist()
        expected = naive_mha(pooler.attention, sequence, HEADS)
        if residual:
            expected = [a + b for a, b in zip(expected, sequence[0], strict=True)]
        if norm:
            mean = math.fsum(expected) / D
            variance = math.fsum((x - mean) ** 2 for x in expected) / D
            scale, shift = pooler.norm.weight.tolist(), pooler.norm.bias.tolist()
            expected = [
                s * (x - mean) / math.sqrt(variance + 1e-5) + b
                for x, s, b in zip(expected, scale, shift, strict=True)
            ]
        assert actual[i].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("name", ["max_seq_mha", "mean_seq_mha"])
def test_one_layer_equals_mha_exactly(name):
    """Trap 5: a maximum over any other axis than that of layers would not."""
    one, mha = make(name, last=1).double(), make("mha").double()
    mha.load_state_dict(one.state_dict())
    assert one.layers == mha.layers
    hidden, mask = sequences([LAYERS], D)
    assert torch.equal(one(hidden, mask), mha(hidden, mask))


def test_the_mask_matters_and_stands_the_right_way_round():
    """Trap 4: a missing or an inverted mask is far off."""
    pooler = make("max_seq_mha", last=2, dim=64).double().eval()
    hidden, mask = sequences(pooler.layers, dim=64)
    hidden = {n: torch.where(mask[..., None] == 1, state, 0.3) for n, state in hidden.items()}
    right = pooler(hidden, mask)

    def away(other):
        rows = slice(0, 3)  # the last sentence has one token, so inverting leaves only pads
        return ((pooler(hidden, other) - right)[rows].norm() / right[rows].norm()).item()

    assert away(torch.ones_like(mask)) > 0.1
    assert away(1 - mask) > 0.3
    alone = {n: state[:1, :5] for n, state in hidden.items()}
    torch.testing.assert_close(pooler(alone, mask[:1, :5])[0], right[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", WITH_MHA)
def test_parameters_at_the_width_of_bert_base(name):
    with torch.device("meta"):
        pooler = make(name, dim=768, num_layers=12)
        normed = make(name, dim=768, num_layers=12, norm=True)
    assert sum(p.numel() for p in pooler.parameters()) == 2_362_368
    assert sum(p.numel() for p in normed.parameters()) == 2_362_368 + 2 * 768


@pytest.mark.parametrize("name", WITH_MHA)
def test_new_weights_are_those_of_pytorch(name):
    """Trap 1: finite, within their bounds, and near these bounds (0.0442 at d = 768)."""
    attention = make(name, dim=768, num_layers=12).attention
    assert type(attention) is nn.MultiheadAttention and attention.batch_first
    assert attention.num_heads == 4
    bounds = {"in_proj_weight": math.sqrt(6 / (4 * 768)), "out_proj.weight": 1 / math.sqrt(768)}
    assert bounds["in_proj_weight"] == pytest.approx(0.0442, abs=5e-5)
    for key, parameter in attention.named_parameters():
        assert parameter.isfinite().all()
        largest = parameter.abs().max().item()
        assert largest == pytest.approx(bounds[key], rel=1e-3) if key in bounds else largest == 0


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_values_and_gradients_are_those_of_pytorch(dropout):
    """With the same random numbers, in training: `nn.MultiheadAttention` itself for one query."""
    attention = randomised(make("mha", heads=HEADS, dropout=dropout)).attention.train()
    states, mask = sequences([LAYERS], D)
    result = {}
    for name in ("pytorch", "ours"):
        sequence = states[LAYERS].clone().requires_grad_()
        torch.manual_seed(3)
        if name == "ours":
            vectors = attend(attention, sequence, mask)
        else:
            query, pads = sequence[:, :1], mask == 0
            vectors = attention(query, sequence, sequence, key_padding_mask=pads)[0][:, 0]
        wanted = [sequence, *attention.parameters()]
        result[name] = [vectors, *torch.autograd.grad(vectors.square().sum(), wanted)]
    for ours, theirs in zip(result["ours"], result["pytorch"], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("autocast", [False, True])
def test_attention_in_bf16(autocast):
    """A model of bf16 weights, and one of fp32 weights under autocast."""
    attention = make("mha", heads=HEADS).attention
    states, mask = sequences([LAYERS], D)
    exact = attend(attention, states[LAYERS].float(), mask)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        result = attend(
            attention if autocast else attention.bfloat16(), states[LAYERS].bfloat16(), mask
        )
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), exact, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("name", WITH_MHA)
def test_a_token_costs_no_key_and_no_value(name):
    """A score and a share of the sum a head: nothing that grows with the square of the width."""
    pooler, flops = make(name), []
    for padding in (0, 1):
        hidden, mask = sequences(pooler.layers, D, padding=padding)
        with FlopCounterMode(display=False) as counter:
            pooler({n: state.float() for n, state in hidden.items()}, mask)
        flops.append(counter.get_total_flops())
    assert flops[1] - flops[0] == len(LENGTHS) * 2 * pooler.attention.num_heads * 2 * D
