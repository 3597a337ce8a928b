"""Attention over nested tensors: on a CPU by torch's formula, on a GPU, where there is one, by its
kernels."""

import copy

import pytest
import torch

from multitask.models.encoders.bert import BertEncoder
from tests.support.tiny_bert import ragged

LENGTHS = [[9, 1, 4, 30, 31, 4, 2, 17], [5], [1, 1], [7] * 6, [62, 1, 3]]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    ),
]


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    made = BertEncoder(vocab_size=60, dim=32, num_layers=2, heads=4, positions=64)
    for parameter in made.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape)
    return made


def states_and_gradients(encoder, given, tokens):
    ids, types, mask = given
    result = encoder.encode(encoder.embed(ids, types, mask), mask, (1, 2), tokens)
    gradients = torch.autograd.grad(sum(s.square().sum() for s in result.values()),
                                    list(encoder.parameters()))  # fmt: skip
    return [*result.values(), *gradients]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tokens", ["all", "first"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: str(len(lengths)))
def test_states_and_gradients_are_those_of_the_groups(encoder, lengths, left, tokens, device):
    dtype, limit = (torch.float64, 1e-10) if device == "cpu" else (torch.float32, 1e-4)
    plain = copy.deepcopy(encoder).to(device, dtype).eval()
    other = copy.deepcopy(plain)
    other.use_kernels("varlen")
    given = [tensor.to(device) for tensor in ragged(lengths, left)]
    for one, two in zip(
        states_and_gradients(plain, given, tokens),
        states_and_gradients(other, given, tokens),
        strict=True,
    ):
        assert (one - two).abs().max() <= limit * max(1.0, float(one.detach().abs().max()))


def test_dropout_acts_on_the_attention_weights_in_training_alone(encoder):
    other = copy.deepcopy(encoder).double()
    other.use_kernels("varlen")
    for layer in other.layers:
        layer.dropout.rate = 0.0
    other.embeddings.dropout.rate = 0.0
    ids, types, mask = ragged(LENGTHS[0], left=False)

    def state(training):
        torch.manual_seed(3)
        return other.train(training).encode(other.embed(ids, types, mask), mask, (2,))[2]

    assert torch.equal(state(True), state(True)) and torch.equal(state(False), state(False))
    assert (state(True) - state(False)).abs().max() > 1e-3
    for layer in other.layers:
        layer.attention.dropout.rate = 0.0
    assert torch.equal(state(True), state(False))
