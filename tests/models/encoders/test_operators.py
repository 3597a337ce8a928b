"""Attention over a packed batch, on a CPU and as a GPU gets it: the formula, and its gradients."""

import math

import pytest
import torch

from multitask.models.encoders import operators
from multitask.models.encoders.bert import BertEncoder
from multitask.models.encoders.packing import Packing
from pals.pal import ProjectedAttention
from tests.support.launches import as_on_a_gpu
from tests.support.tiny_bert import ragged

LENGTHS = [9, 1, 4, 30, 31, 4, 2, 17]


def test_all_layers_are_one_graph_on_a_gpu(monkeypatch):
    """torch.compile gets one graph there; a break in it raises an error."""
    as_on_a_gpu(monkeypatch)
    torch.manual_seed(0)
    encoder = BertEncoder(vocab_size=60, dim=32, num_layers=3, heads=4, dropout=0.0,
                          attention_dropout=0.0)  # fmt: skip

    def last(embedded, mask, packing):
        return encoder.encode(embedded, mask, (3,), packing=packing)[3]

    graph = torch.compile(last, backend="eager", fullgraph=True, dynamic=True)
    for lengths in (LENGTHS, [5, 2, 7]):
        ids, types, mask = ragged(lengths)
        packing = encoder.packing(mask)
        embedded = encoder.embed(ids, types, mask, packing)
        packing.padded.bias(embedded.dtype)  # made once per pass, outside the graph
        arguments = (embedded, mask, packing)
        torch.testing.assert_close(graph(*arguments), last(*arguments))


@pytest.mark.parametrize("adapted", [False, True], ids=["plain", "pal"])
@pytest.mark.parametrize("tokens", ["all", "first"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("lengths", [LENGTHS, [5], [1, 1], [7] * 6, [62, 1, 3]])
def test_the_branch_of_a_gpu_has_the_states_and_gradients_of_a_cpu(
    lengths, left, tokens, adapted, monkeypatch
):
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "dim": 32, "num_layers": 2, "heads": 4, "positions": 64}
    encoder = BertEncoder(**sizes).double().eval()
    pal = ProjectedAttention(32, 2, size=12, heads=4).double().eval() if adapted else None
    parameters = [*encoder.parameters(), *(pal.parameters() if pal else ())]
    for parameter in parameters:
        parameter.data += 0.2 * torch.randn(parameter.shape)
    ids, types, mask = ragged(lengths, left)

    def run():
        states = encoder.encode(encoder.embed(ids, types, mask), mask, (1, 2), tokens, pal)
        loss = sum(state.square().sum() for state in states.values())
        return [*states.values(), *torch.autograd.grad(loss, parameters, allow_unused=True)]

    expected = run()
    as_on_a_gpu(monkeypatch)
    for one, two in zip(run(), expected, strict=True):
        if two is not None:
            torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("device", ["cpu", "as on a gpu"])
@pytest.mark.parametrize("single", [False, True], ids=["all", "first"])
@pytest.mark.parametrize("heads", [1, 4])
def test_attention_equals_the_formula_sequence_by_sequence(single, heads, device, monkeypatch):
    if device != "cpu":
        as_on_a_gpu(monkeypatch)
    generator = torch.Generator().manual_seed(2)
    mask = ragged(LENGTHS)[2]
    packing = Packing(mask)
    count = int(mask.sum())
    query, key, value = torch.randn(3, count, 12, dtype=torch.float64, generator=generator)
    if single:
        query = query[packing.first]
        key_value = torch.cat([key, value], dim=1)
        result = operators.attention(key_value, packing, heads, 0.0, query)
    else:
        result = operators.attention(torch.cat([query, key, value], dim=1), packing, heads, 0.0)
    ends = torch.tensor(sorted(LENGTHS)).cumsum(0).tolist()
    for row, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        queries = slice(row, row + 1) if single else slice(start, end)
        for head in range(heads):
            part = slice(head * 12 // heads, (head + 1) * 12 // heads)
            scores = query[queries, part] @ key[start:end, part].T / math.sqrt(12 / heads)
            weights = scores.exp() / scores.exp().sum(1, keepdim=True)
            torch.testing.assert_close(result[queries, part], weights @ value[start:end, part])


def test_softmax_is_zero_on_pads_sums_to_one_and_is_never_bf16():
    scores = torch.randn(3, 2, 4, 5)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1]]).bool()[:, None, None]
    for dtype, result in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        weights = operators.softmax(scores.to(dtype), mask)
        assert weights.dtype == result
        assert not weights.masked_select(~mask.expand_as(weights)).any()
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 4, dtype=result))
