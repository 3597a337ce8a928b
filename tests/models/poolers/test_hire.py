"""HIRE and its fusion network against the paper's formulas as plain loops; its traps, its sizes."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from heads.classification import ClassificationHead
from multitask.config.registry import build
from multitask.models.encoders import BertEncoder
from multitask.models.poolers import hire
from multitask.models.poolers.gru import final_states, pack
from multitask.models.projections import Tanh
from tests.support import pooler_inputs
from tests.support.pooler_inputs import LENGTHS, make_pooler

D, LAYERS = 5, 3
FUSIONS = [None, 0, 1, 2, 3]


def make(dim=D, num_layers=LAYERS, **options):
    return make_pooler("hire", dim, num_layers, **options)


def sequences(dtype=torch.float64):
    """The embeddings and every layer's states, and the mask."""
    hidden, mask = pooler_inputs.sequences(range(LAYERS + 1), D, junk=3.0)
    return {n: state.to(dtype) for n, state in hidden.items()}, mask


# ---- the formulas, number by number (numpy, float64)


def naive_gru(gru, layer, reverse, rows):
    """All states of one direction of one layer, [T][d], in the order of the tokens (Cho 2014).

    r = s(W_r x + b + V_r h + c), z alike, n = tanh(W_n x + b + r (V_n h + c)),
    h' = (1 - z) n + z h.
    """
    end = f"_l{layer}" + ("_reverse" if reverse else "")
    wx, wh, bx, bh = (
        getattr(gru, f"{name}{end}").detach().numpy()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    d = wh.shape[1]
    state, result = np.zeros(d), {}
    order = range(len(rows))[::-1] if reverse else range(len(rows))
    for t in order:
        x, h = wx @ rows[t] + bx, wh @ state + bh
        r = 1 / (1 + np.exp(-(x[:d] + h[:d])))
        z = 1 / (1 + np.exp(-(x[d : 2 * d] + h[d : 2 * d])))
        n = np.tanh(x[2 * d :] + r * h[2 * d :])
        state = result[t] = (1 - z) * n + z * state
    return [result[t] for t in range(len(rows))]


def naive_bigru(gru, rows):
    """Outputs [T][2 d] of the last layer, and the final state of each layer and direction."""
    final = []
    for layer in range(gru.num_layers):
        forward = naive_gru(gru, layer, False, rows)
        backward = naive_gru(gru, layer, True, rows)
        final += [forward[-1], backward[0]]  # the backward half ends at the first token
        rows = [np.concatenate(pair) for pair in zip(forward, backward, strict=True)]
    return rows, final


def naive_hire(pooler, states):
    """One example's (pooled vector, S) from its states {layer: [T, d]}."""
    last = states[LAYERS]
    weights = None
    if pooler.scorer is None:
        mixed = last
    else:
        if hasattr(pooler.scorer, "gru"):
            w, b = pooler.scorer.score.weight[0].detach().numpy(), pooler.scorer.score.bias.item()
            scores = []
            for layer in pooler.scored:
                _, final = naive_bigru(pooler.scorer.gru, states[layer])
                scores.append(max(0.0, float(w @ np.concatenate(final)) + b))  # eq. 2, 3
        else:
            scores = pooler.scorer.alpha.tolist()
        total = math.fsum(math.exp(score) for score in scores)
        weights = [math.exp(score) / total for score in scores]  # eq. 4
        mixed = sum(s * states[n] for s, n in zip(weights, pooler.scored, strict=True))  # eq. 5
    if pooler.fusion is None:
        return mixed[0], weights
    joined = np.concatenate([last, mixed, last + mixed, last * mixed], axis=1)  # eq. 6
    rows = joined if pooler.fusion.gru is None else naive_bigru(pooler.fusion.gru, joined)[0]
    return rows[0], weights


def randomised(pooler):
    """The same with larger weights, so that scores differ."""
    torch.manual_seed(1)
    for parameter in pooler.parameters():
        nn.init.normal_(parameter, std=0.5)
    return pooler.double().eval()


@pytest.mark.parametrize(
    ("scores", "fusion_layers", "layers"),
    [
        *itertools.product(["dynamic", "mean", "random"], FUSIONS, [None, [0, 1], [2, 3]]),
        *itertools.product(["none"], FUSIONS[1:], [None]),
    ],
)
def test_is_the_papers_formulas(scores, fusion_layers, layers):
    pooler = randomised(make(scores=scores, fusion_layers=fusion_layers, layers=layers))
    mixed = () if scores == "none" else tuple(layers or range(LAYERS + 1))
    assert pooler.scored == mixed
    assert pooler.layers == (mixed if fusion_layers is None else tuple(sorted({*mixed, LAYERS})))
    hidden, mask = sequences()
    actual = pooler({n: hidden[n] for n in pooler.layers}, mask)
    for i, length in enumerate(LENGTHS):
        states = {n: state[i, :length].numpy() for n, state in hidden.items()}
        expected, weights = naive_hire(pooler, states)
        assert actual[i].tolist() == pytest.approx(expected.tolist(), rel=1e-10, abs=1e-12)
        if weights is not None:
            importance = pooler.importance(hidden, mask)
            assert importance.shape == (len(LENGTHS), len(mixed))
            assert importance[i].tolist() == pytest.approx(weights, rel=1e-10)


def test_examples_have_different_scores():
    pooler = randomised(make())
    with torch.no_grad():
        pooler.scorer.score.bias -= 1.2  # so that some scores are shut, some are not
    hidden, mask = sequences()
    alpha = pooler.scorer([hidden[n] for n in pooler.scored], mask)
    assert (alpha >= 0).all() and (alpha == 0).any() and (alpha > 0).any()
    importance = pooler.importance(hidden, mask)
    assert len({tuple(row) for row in importance.tolist()}) == len(LENGTHS)
    torch.testing.assert_close(importance.sum(1), torch.ones(len(LENGTHS)).double())


def test_mean_and_random_scores_are_the_same_for_every_example():
    hidden, mask = sequences()
    for scores in ("mean", "random"):
        importance = make(scores=scores).double().importance(hidden, mask)
        assert (importance == importance[0]).all()
        uniform = torch.full_like(importance[0], 1 / (LAYERS + 1))
        assert torch.allclose(importance[0], uniform) == (scores == "mean")


def test_random_scores_are_drawn_once_and_saved():
    one = make(scores="random")
    assert "scorer.alpha" in one.state_dict() and not list(one.scorer.parameters())
    other = build("pooling", "hire", {"scores": "random"}, {"dim": D, "num_layers": LAYERS})
    assert not torch.equal(other.scorer.alpha, one.scorer.alpha)
    other.load_state_dict(one.state_dict())
    assert torch.equal(other.scorer.alpha, one.scorer.alpha)


@pytest.mark.parametrize(
    ("options", "layers", "tokens", "width"),
    [
        ({}, (0, 1, 2, 3), "all", 2 * D),
        ({"layers": [1]}, (1, 3), "all", 2 * D),
        ({"layers": [1], "fusion_layers": None}, (1,), "all", D),
        ({"scores": "none"}, (3,), "all", 2 * D),
        ({"scores": "none", "fusion_layers": 0}, (3,), "first", 4 * D),
        ({"scores": "mean", "layers": [0, 1], "fusion_layers": None}, (0, 1), "first", D),
        ({"scores": "mean", "fusion_layers": 0}, (0, 1, 2, 3), "first", 4 * D),
    ],
)
def test_asks_for_no_more_than_it_needs(options, layers, tokens, width):
    pooler = make(**options)
    assert (pooler.layers, pooler.tokens, pooler.output_dim) == (layers, tokens, width)


# ---- traps


def test_final_states_are_in_the_order_of_examples():
    """Trap 2 again: `h_n.view(B, -1)` mixes examples."""
    pooler = randomised(make())
    hidden, mask = sequences()
    actual = pooler.scorer._summaries(False, mask.sum(1), hidden[0], hidden[2])
    assert actual.shape == (len(LENGTHS), 2, 4 * D)
    for i, length in enumerate(LENGTHS):
        for place, layer in enumerate((0, 2)):
            _, final = naive_bigru(pooler.scorer.gru, hidden[layer][i, :length].numpy())
            expected = np.concatenate(final).tolist()
            assert actual[i, place].tolist() == pytest.approx(expected, rel=1e-10, abs=1e-13)


def test_the_backward_half_of_the_first_token_is_its_final_state():
    """Trap 3: `out[:, -1]` is not."""
    pooler = randomised(make())
    hidden, mask = sequences()
    result = pooler(hidden, mask)
    weights = pooler.importance(hidden, mask)
    mixed = sum(weights[:, n, None, None] * hidden[n] for n in pooler.scored)
    last = hidden[LAYERS]
    joined = torch.cat([last, mixed, last + mixed, last * mixed], -1)
    packed, final = pooler.fusion.gru(pack(joined, mask.sum(1)))
    torch.testing.assert_close(result[:, D:], final[-1], rtol=1e-12, atol=1e-12)
    output, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    torch.testing.assert_close(result, output[:, 0], rtol=1e-12, atol=1e-12)
    assert (output[:, -1, D:] - final[-1]).abs().max() > 0.1


@pytest.mark.parametrize("states_at_once", [1, 3, 4, 9])
def test_chunks_change_neither_values_nor_gradients(states_at_once):
    uncut, cut = randomised(make()), randomised(make(states_at_once=states_at_once))
    cut.load_state_dict(uncut.state_dict())
    result = []
    for pooler in (uncut, cut):
        hidden, mask = sequences()
        hidden = {n: state.requires_grad_() for n, state in hidden.items()}
        output = pooler(hidden, mask)
        output.square().sum().backward()
        gradients = [p.grad for p in pooler.parameters()]
        result.append([output, *gradients, *(state.grad for state in hidden.values())])
    for one, other in zip(*result, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_chunks_are_computed_again_in_the_mode_of_the_forward_pass():
    """SMART's pass without dropout is over before the backward pass begins."""
    result = []
    for states_at_once in (None, 2):
        pooler = randomised(make(states_at_once=states_at_once, dropout=0.5))
        hidden, mask = sequences()
        output = pooler(hidden, mask)
        pooler.train()
        output.sum().backward()
        assert pooler.scorer.gru.training
        result.append([p.grad for p in pooler.parameters()])
    for one, other in zip(*result, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_all_states_run_in_one_call(monkeypatch):
    pooler = make().double()
    calls = []

    def seen(gru, packed):
        calls.append(packed)
        return final_states(gru, packed)

    monkeypatch.setattr(hire, "final_states", seen)
    hidden, mask = sequences()
    pooler(hidden, mask)
    (packed,) = calls
    assert len(packed.data) == (LAYERS + 1) * sum(LENGTHS)  # no pad among them


@pytest.mark.parametrize("fusion_layers", [1, 2])
def test_new_weights_are_finite_and_within_their_bounds(fusion_layers):
    """Trap 1: composed, not loaded by `from_pretrained`, which left memory as it was."""
    pooler = make(dim=32, num_layers=2, fusion_layers=fusion_layers)
    for name, parameter in pooler.named_parameters():
        bound = 1 / math.sqrt(4 * 32) if "score." in name else 1 / math.sqrt(32)
        assert parameter.isfinite().all()
        assert parameter.abs().max() <= bound
        if parameter.numel() > 100:
            assert parameter.abs().max() > 0.9 * bound and parameter.std() > 0.5 * bound


def test_one_fusion_layer_has_no_place_for_dropout():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of a dropout that never acts
        assert make(fusion_layers=1).fusion.gru.dropout == 0


def test_scores_that_are_all_zero_give_uniform_weights_and_no_gradient():
    pooler = make().double()
    with torch.no_grad():
        pooler.scorer.score.bias.fill_(-100)
    hidden, mask = sequences()
    importance = pooler.importance(hidden, mask)
    torch.testing.assert_close(importance, torch.full_like(importance, 1 / (LAYERS + 1)))
    pooler(hidden, mask).sum().backward()
    assert not pooler.scorer.score.weight.grad.any()


# ---- sizes


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameters_of_the_build_on_roberta_large():
    """The paper's Table 3 says 437 M."""
    with torch.device("meta"):
        encoder = BertEncoder(
            vocab_size=50265, dim=1024, num_layers=24, heads=16, positions=514, token_types=1
        )
        pooler = make(dim=1024, num_layers=24)
        projection = Tanh(pooler.output_dim, 1024)
        head = ClassificationHead(1024, num_labels=2, class_counts=[1, 1])
    assert count(pooler.scorer.gru) == 31_481_856
    assert count(pooler.scorer.score) == 4_097
    assert count(pooler.fusion) == 50_356_224
    pooler_of_roberta = 1024 * 1024 + 1024
    assert count(encoder) + pooler_of_roberta == 355_359_744
    assert count(pooler) == 81_842_177
    together = count(encoder) + pooler_of_roberta + count(pooler)
    assert round(together / 1e6, 2) == 437.20
    assert count(projection) == 2048 * 1024 + 1024
    total = count(encoder) + count(pooler) + count(projection) + count(head)
    assert round(total / 1e6, 2) == 438.25


@pytest.mark.parametrize("scores", ["mean", "random", "none"])
def test_fixed_scores_cost_no_parameters(scores):
    assert count(make(scores=scores, fusion_layers=0)) == 0
