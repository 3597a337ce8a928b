"""BitLinear against BitNet b1.58 written as loops, its gradient, its place in the encoder."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from multitask.models.encoders.bert import BertEncoder, FusedLinear
from multitask.models.encoders.bitlinear import (
    BitLinear,
    bit_layers,
    eight_bit,
    quantise,
    set_strength,
    straight_through,
    ternarise,
)
from multitask.models.linear import Linear


def naive_ternary(rows: list[list[float]]) -> tuple[list[list[int]], float]:
    """absmean of one matrix, number by number."""
    numbers = [abs(number) for row in rows for number in row]
    scale = max(sum(numbers) / len(numbers), 1e-5)
    return [[max(-1, min(1, round(number / scale))) for number in row] for row in rows], scale


def naive_eight_bit(token: list[float]) -> list[float]:
    """absmax of one token, number by number."""
    step = max(max(abs(number) for number in token), 1e-5) / 127
    return [max(-128, min(127, round(number / step))) * step for number in token]


def naive_layer(layer: BitLinear, hidden: torch.Tensor) -> list[list[float]]:
    """Outputs of [N, d] inputs; each of ``layer.parts`` has a separate scale."""
    rows, bias = layer.weight.tolist(), layer.bias.tolist()
    height = len(rows) // layer.parts
    result = []
    for token in hidden.tolist():
        inputs, outputs = naive_eight_bit(token), []
        for start in range(0, len(rows), height):
            matrix, scale = naive_ternary(rows[start : start + height])
            sums = (sum(w * x for w, x in zip(row, inputs, strict=True)) for row in matrix)
            outputs += [scale * total for total in sums]
        result.append([total + shift for total, shift in zip(outputs, bias, strict=True)])
    return result


def layer_of(kind=nn.Linear, size=(6, 9), seed=0) -> BitLinear:
    torch.manual_seed(seed)
    plain = kind(*size).double()
    nn.init.normal_(plain.bias)
    return BitLinear(plain)


def encoder_of(**changes) -> BertEncoder:
    torch.manual_seed(1)
    sizes = {"vocab_size": 20, "dim": 8, "num_layers": 3, "heads": 2, "positions": 16}
    return BertEncoder(**{**sizes, **changes}).double()


def texts() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    ids = torch.tensor([[2, 5, 6, 7, 3], [2, 8, 3, 0, 0], [2, 9, 9, 3, 0]])
    return ids, torch.zeros_like(ids), (ids != 0).long()


def states(encoder: BertEncoder, tokens: str = "all") -> torch.Tensor:
    ids, types, mask = texts()
    last = encoder.num_layers
    return encoder.encode(encoder.embed(ids, types, mask), mask, (last,), tokens)[last]


@pytest.mark.parametrize("kind", [Linear, FusedLinear])
def test_a_layer_computes_what_loops_in_float64_compute(kind):
    layer = layer_of(kind)
    hidden = torch.randn(5, 6, dtype=torch.float64) * torch.tensor([[1.0], [9], [0.01], [3], [0]])
    expected = torch.tensor(naive_layer(layer, hidden), dtype=torch.float64)
    assert torch.allclose(layer(hidden), expected, rtol=0, atol=1e-12)
    assert torch.allclose(layer.eval()(hidden), expected, rtol=0, atol=1e-12)
    plain = nn.functional.linear(hidden, layer.weight, layer.bias)
    assert not torch.allclose(layer(hidden), plain, atol=0.1)


def test_each_part_of_a_fused_matrix_has_its_own_scale():
    layer = layer_of(FusedLinear)
    with torch.no_grad():
        layer.weight[3:6] *= 100
    ternary, scales = ternarise(layer.weight, layer.parts)
    for part in range(3):
        matrix, scale = naive_ternary(layer.weight[3 * part : 3 * part + 3].tolist())
        assert ternary[3 * part : 3 * part + 3].tolist() == matrix
        assert scales[part].item() == pytest.approx(scale, rel=1e-12)
    assert scales[1] > 20 * scales[0]


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20))
def test_eight_bits_are_at_most_255_even_steps_half_a_step_away(numbers):
    token = torch.tensor(numbers, dtype=torch.float64)
    result = eight_bit(token)
    step = max(token.abs().max().item(), 1e-5) / 127
    levels = result / step
    assert torch.allclose(levels, levels.round(), atol=1e-9) and levels.abs().max() <= 127.5
    assert ((result - token).abs() <= step * (0.5 + 1e-9)).all()


@given(st.lists(st.floats(-10, 10, width=32), min_size=2, max_size=24), st.floats(0.1, 100))
def test_ternary_weights_do_not_depend_on_the_matrix_scale(numbers, factor):
    weight = torch.tensor([numbers], dtype=torch.float64)
    ternary, (scale,) = ternarise(weight, 1)
    assert set(ternary.flatten().tolist()) <= {-1.0, 0.0, 1.0}
    near = ((weight / scale).abs() - 0.5).abs().min() < 1e-6  # rounding may go either way
    if scale > 1e-3 and not near:
        assert torch.equal(ternarise(weight * factor, 1)[0], ternary)


def test_zero_weights_and_zero_tokens_stay_zero_with_finite_gradients():
    layer = layer_of()
    nn.init.zeros_(layer.weight)
    hidden = torch.zeros(2, 6, dtype=torch.float64, requires_grad=True)
    result = layer(hidden)
    assert torch.equal(result, layer.bias.expand(2, 9))
    result.square().sum().backward()
    assert torch.isfinite(hidden.grad).all() and torch.isfinite(layer.weight.grad).all()


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_the_gradient_goes_straight_through_both_roundings(strength):
    """By hand: of y = W' x' + b, dx = W'^T g and dW = g x'^T, with the values that were used."""
    layer = layer_of()
    layer.strength = strength
    hidden = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    given_back = torch.randn(4, 9, dtype=torch.float64)
    layer(hidden).backward(given_back)
    matrix, scale = naive_ternary(layer.weight.tolist())
    quantised = torch.tensor(matrix, dtype=torch.float64) * scale
    weight = layer.weight.detach() * (1 - strength) + strength * quantised
    inputs = torch.tensor([naive_eight_bit(t) for t in hidden.tolist()], dtype=torch.float64)
    inputs = hidden.detach() * (1 - strength) + strength * inputs
    assert torch.allclose(hidden.grad, given_back @ weight, atol=1e-12)
    assert torch.allclose(layer.weight.grad, given_back.T @ inputs, atol=1e-12)
    assert torch.allclose(layer.bias.grad, given_back.sum(0), atol=1e-12)


def test_the_quantised_values_are_exact_in_fp32():
    """A sum w + (q - w) would be off by a last bit, and an export by more than its rounding."""
    torch.manual_seed(0)
    value = torch.randn(1000, requires_grad=True)
    quantised = value.detach().round() * 0.1
    assert torch.equal(straight_through(value, quantised, 1.0), quantised)
    assert straight_through(value, quantised, 0.0) is value


@pytest.mark.parametrize("strength", [0.3, 1.0])
def test_the_gradient_of_a_bf16_input_is_bf16(strength):
    value = torch.randn(8, dtype=torch.bfloat16, requires_grad=True)
    result = straight_through(value * 1, torch.randn(8), strength)
    factors = torch.arange(8.0)
    (gradient,) = torch.autograd.grad((result * factors).sum(), value)
    assert result.dtype == torch.float32
    assert gradient.dtype == torch.bfloat16 and torch.equal(gradient.float(), factors)


def test_with_lambda_0_a_layer_is_the_plain_layer_to_the_last_bit():
    torch.manual_seed(0)
    plain = Linear(6, 9)
    layer, hidden = BitLinear(copy.deepcopy(plain)), torch.randn(5, 6)
    layer.strength = 0.0
    assert torch.equal(layer(hidden), plain(hidden))
    assert not torch.equal(layer.eval()(hidden), plain(hidden))  # scores are always quantised


@pytest.mark.parametrize("kind", [Linear, FusedLinear])
def test_rows_are_a_slice_of_all_outputs(kind):
    layer, hidden = layer_of(kind), torch.randn(5, 6, dtype=torch.float64)
    for rows in (slice(3), slice(3, None), slice(2, 5)):
        assert torch.allclose(layer(hidden, rows), layer(hidden)[:, rows], atol=1e-14)


def test_quantise_keeps_the_tensors_and_their_names():
    plain = encoder_of()
    encoder = copy.deepcopy(plain)
    before = dict(encoder.named_parameters())
    quantise(encoder)
    assert len(bit_layers(encoder)) == 3 * 4
    assert all(before[name] is parameter for name, parameter in encoder.named_parameters())
    assert list(encoder.state_dict()) == list(plain.state_dict())
    assert encoder.layer_parameters()[1][0] is before["layers.0.attention.qkv.weight"]
    assert not torch.allclose(states(encoder.eval()), states(plain.eval()), atol=1e-4)


def test_inner_layers_are_all_but_the_first_and_the_last():
    encoder = encoder_of(num_layers=4)
    quantise(encoder, "inner")
    assert {name.split(".")[1] for name in bit_layers(encoder)} == {"1", "2"}
    with pytest.raises(ValueError, match="none of the 2 layers is an inner one: take `all`"):
        quantise(encoder_of(num_layers=2), "inner")


def test_first_tokens_alone_are_the_first_of_all():
    encoder = encoder_of().eval()
    quantise(encoder)
    assert not any(layer.training for layer in bit_layers(encoder).values())
    assert torch.allclose(states(encoder, "first")[:, 0], states(encoder)[:, 0], atol=1e-12)


def test_padding_changes_nothing():
    encoder = encoder_of()
    quantise(encoder)
    encoder.eval()
    ids, types, mask = (part[1:2, :3] for part in texts())
    alone = encoder.encode(encoder.embed(ids, types, mask), mask, (3,))[3]
    assert torch.allclose(states(encoder)[1:2, :3], alone, atol=1e-12)


def test_lambda_grows_with_the_share_of_the_training():
    encoder = encoder_of()
    quantise(encoder)
    for gradual, progress, expected in ((0.5, 0, 0), (0.5, 0.2, 0.4), (0.5, 0.5, 1), (0.5, 0.9, 1),
                                        (0.0, 0.0, 1), (1.0, 0.25, 0.25)):  # fmt: skip
        set_strength(encoder, gradual, progress)
        actual = {layer.strength for layer in bit_layers(encoder).values()}
        assert len(actual) == 1 and actual.pop() == pytest.approx(expected)
    set_strength(encoder_of(), 0.5, 0.1)  # nothing to do


def test_under_autocast_scales_and_master_weights_stay_fp32():
    encoder = encoder_of(dropout=0.0, attention_dropout=0.0).float()
    quantise(encoder)
    exact = states(encoder)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = states(encoder)
        (layer, *_) = bit_layers(encoder).values()
        assert layer(torch.randn(2, 8)).dtype == torch.bfloat16
        assert eight_bit(torch.randn(2, 8).bfloat16()).dtype == torch.float32
    assert (rounded.float() - exact).abs().mean() < 0.1
    rounded.float().square().sum().backward()
    assert {p.grad.dtype for p in encoder.parameters() if p.grad is not None} == {torch.float32}


def test_recomputed_layers_have_the_same_gradients():
    result = []
    for checkpointing in (False, True):
        encoder = encoder_of(dropout=0.0, attention_dropout=0.0)
        quantise(encoder)
        encoder.gradient_checkpointing = checkpointing
        set_strength(encoder, 1.0, 0.5)
        states(encoder).square().sum().backward()
        result.append(encoder.layers[0].attention.qkv.weight.grad)
    assert torch.allclose(*result, atol=1e-12)


@pytest.mark.parametrize("gradual", [0.0, 0.5])
def test_a_small_encoder_learns(gradual):
    """The class is the second token: the loss falls far below that of a guess."""
    torch.manual_seed(3)
    encoder = encoder_of(dim=16, dropout=0.0, attention_dropout=0.0).float()
    quantise(encoder)
    head = nn.Linear(16, 3)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=3e-3)
    labels = torch.arange(24) % 3
    ids = torch.stack([torch.full((24,), 2), labels + 5, torch.randint(8, 20, (24,))], dim=1)
    mask, steps, losses = torch.ones_like(ids), 80, []
    for step in range(steps):
        set_strength(encoder, gradual, step / steps)
        embedded = encoder.embed(ids, torch.zeros_like(ids), mask)
        vectors = encoder.encode(embedded, mask, (3,), "first")[3][:, 0]
        loss = nn.functional.cross_entropy(head(vectors), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert math.log(3) * 0.8 < losses[0] and losses[-1] < 0.2
