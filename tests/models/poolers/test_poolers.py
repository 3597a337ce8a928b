"""One contract for every registered pooler, and each pooler against a plain loop."""

import math

import pytest
import torch

from multitask.config.registry import POOLERS, build
from multitask.utils.errors import UserError

D, LAYERS = 8, 3
LENGTHS = [5, 2, 7, 1]
# every pooler with its defaults, and those that compute something else under other options
VARIANTS = {
    "max_cls, all layers": ("max_cls", {"last": LAYERS}),
    "max_seq_mha, one layer": ("max_seq_mha", {"last": 1}),
    "mean_seq_mha, two layers": (
        "mean_seq_mha",
        {"last": 2, "heads": 2, "dropout": 0.1, "residual": True},
    ),
    "hire, mean": ("hire", {"scores": "mean"}),
    "hire, random": ("hire", {"scores": "random", "layers": [2, 3], "fusion_layers": 1}),
    "hire, none": ("hire", {"scores": "none", "fusion_layers": 3}),
    "hire, low layers": ("hire", {"layers": [0, 1]}),
    "hire, without fusion": ("hire", {"fusion_layers": None, "layers": [0, 1]}),
    "hire, no fusion layers": ("hire", {"fusion_layers": 0}),
    "hire, first tokens alone": ("hire", {"scores": "random", "fusion_layers": 0}),
    "hire, in chunks": ("hire", {"states_at_once": 3}),
    "layer_attention, first tokens alone": ("layer_attention", {"variant": "cls_all"}),
    "layer_attention, means": ("layer_attention", {"variant": "avg_all", "concat_cls_last": False}),
    "concat, with weights": ("concat", {"parts": ["mha", "layer_attention"]}),
}
# `tokens` gives no vector of a sequence: its test is the last one
every_pooler = pytest.mark.parametrize("name", [n for n in (*POOLERS, *VARIANTS) if n != "tokens"])


def make(name):
    name, options = VARIANTS.get(name, (name, {}))
    torch.manual_seed(0)
    pooler = build("pooling", name, options, {"dim": D, "num_layers": LAYERS})
    if hasattr(getattr(pooler, "scorer", None), "score"):
        torch.nn.init.ones_(pooler.scorer.score.bias)  # so that no ReLU shuts on these states
    return pooler.double().eval()


def states(pooler, padding=0, junk=1e4, dtype=torch.float64):
    """Hidden states and mask for the pooler: all values below zero; pads hold junk."""
    width = max(LENGTHS) + padding
    mask = torch.arange(width)[None] < torch.tensor(LENGTHS)[:, None]
    hidden = {}
    for layer in pooler.layers:
        generator = torch.Generator().manual_seed(layer)
        shape = (len(LENGTHS), max(LENGTHS), D)
        values = -1 - torch.rand(shape, generator=generator, dtype=torch.float64)
        full = torch.full((len(LENGTHS), width, D), junk, dtype=torch.float64)
        full[:, : max(LENGTHS)] = values
        full = full.masked_fill(~mask[..., None], junk).to(dtype)
        hidden[layer] = full[:, :1] if pooler.tokens == "first" else full
    return hidden, mask.long()


@every_pooler
def test_declarations(name):
    pooler = make(name)
    assert len(pooler.layers) > 0
    assert all(isinstance(layer, int) and 0 <= layer <= LAYERS for layer in pooler.layers)
    assert pooler.tokens in ("first", "all")
    hidden, mask = states(pooler)
    assert pooler(hidden, mask).shape == (len(LENGTHS), pooler.output_dim)


@every_pooler
def test_first_is_enough_exactly_where_it_is_declared(name):
    """The other tokens of the last states change the output of the others alone."""
    pooler = make(name)
    first = pooler.tokens == "first"
    pooler.tokens = "all"  # so that `states` hands every token over
    hidden, mask = states(pooler)
    expected = pooler(hidden, mask)
    changed = {layer: state.clone() for layer, state in hidden.items()}
    for state in changed.values():
        state[:, 1:] += 1
    assert torch.equal(pooler(changed, mask), expected) == first
    if first:
        assert torch.equal(pooler({k: v[:, :1] for k, v in hidden.items()}, mask), expected)


@every_pooler
@pytest.mark.parametrize("padding", [0, 1, 9])
@pytest.mark.parametrize("junk", [1e4, -1e4, 0.0])
def test_padding_never_changes_the_output(name, padding, junk):
    pooler = make(name)
    expected = pooler(*states(pooler, junk=-1.5))
    actual = pooler(*states(pooler, padding, junk))
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@every_pooler
def test_batch_equals_single(name):
    pooler = make(name)
    hidden, mask = states(pooler)
    together = pooler(hidden, mask)
    for i, length in enumerate(LENGTHS):
        alone = {layer: state[i : i + 1, :length] for layer, state in hidden.items()}
        result = pooler(alone, mask[i : i + 1, :length])
        torch.testing.assert_close(result[0], together[i], rtol=1e-10, atol=1e-10)


@every_pooler
def test_gradients_are_finite_and_pads_get_none(name):
    pooler = make(name)
    hidden, mask = states(pooler, padding=2)
    hidden = {layer: state.requires_grad_() for layer, state in hidden.items()}
    # equal tokens too: the maximum is reached more than once
    output = pooler(hidden, mask) + pooler({k: 0 * v for k, v in hidden.items()}, mask)
    output.square().sum().backward()
    for parameter in pooler.parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all()
    for state in hidden.values():
        assert state.grad.isfinite().all() and state.grad.any()
        pads = mask[:, : state.shape[1]] == 0
        assert not state.grad[pads].any()


@every_pooler
def test_a_row_without_tokens_is_one_clear_error_or_plays_no_part(name):
    pooler = make(name)
    hidden, mask = states(pooler)
    expected = pooler(hidden, mask)
    mask[1] = 0
    if pooler.tokens == "first":  # the mask is not read
        assert torch.equal(pooler(hidden, mask), expected)
        return
    with pytest.raises(ValueError, match=r"^a sequence without tokens$"):
        pooler(hidden, mask)


@every_pooler
def test_eval_is_deterministic(name):
    pooler = make(name)
    hidden, mask = states(pooler)
    before = torch.get_rng_state()
    assert torch.equal(pooler(hidden, mask), pooler(hidden, mask))
    assert torch.equal(torch.get_rng_state(), before)


@every_pooler
def test_bf16_is_close(name):
    pooler = make(name)
    exact = pooler(*states(pooler))
    pooler.float()
    hidden, mask = states(pooler, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        result = pooler(hidden, mask)
    assert result.isfinite().all()
    torch.testing.assert_close(result.double(), exact, rtol=2e-2, atol=2e-2)


def naive_mean(row):
    return [math.fsum(token[j] for token in row) / len(row) for j in range(D)]


def naive_max(row):
    return [max(token[j] for token in row) for j in range(D)]


NAIVE = {"cls": lambda row: row[0], "mean": naive_mean, "max": naive_max}


@pytest.mark.parametrize("name", NAIVE)
@pytest.mark.parametrize("sign", [1, -1], ids=["all negative", "all positive"])
def test_equals_the_formula_over_the_last_layer(name, sign):
    """All values negative: a pad of zeros would win a careless maximum."""
    pooler = make(name)
    assert tuple(pooler.layers) == (LAYERS,)
    assert pooler.tokens == ("first" if name == "cls" else "all")
    hidden, mask = states(pooler, padding=3, junk=0.0)
    hidden = {layer: sign * state for layer, state in hidden.items()}
    actual = pooler(hidden, mask)
    for i, length in enumerate(LENGTHS):
        expected = NAIVE[name](hidden[LAYERS][i, :length].tolist())
        assert actual[i].tolist() == pytest.approx(expected, rel=1e-12)


def test_mean_of_bf16_states_is_taken_in_fp32():
    pooler = make("mean")
    state = torch.randn(2, 300, D, generator=torch.Generator().manual_seed(0)).bfloat16() + 3
    result = pooler({LAYERS: state}, torch.ones(2, 300, dtype=torch.int64))
    torch.testing.assert_close(result.double(), state.double().mean(1), rtol=1e-6, atol=1e-6)


def test_tokens_are_the_last_layer_as_it_is():
    pooler = make("tokens")
    assert (tuple(pooler.layers), pooler.tokens, pooler.output_dim) == ((LAYERS,), "all", D)
    hidden, mask = states(pooler, padding=2)
    assert torch.equal(pooler(hidden, mask), hidden[LAYERS])


# the pooler, its options, and the option or the value that the one line names
BAD_OPTIONS = [
    ("max_cls", {"last": 5}, "last .*3 layers, not 5"),
    ("max_cls", {"heads": 2}, "no option 'heads'"),
    ("max_seq_mha", {"last": 4}, "last .*3 layers, not 4"),
    ("mean_seq_mha", {"last": 0}, "last .*3 layers, not 0"),
    ("mha", {"last": 1}, "no option 'last'"),
    ("mha", {"heads": 3}, "3 heads, width 8"),
    ("max_seq_mha", {"heads": 0}, "0 heads, width 8"),
    ("mha", {"dropout": 1.0}, "dropout .*not 1.0"),
    ("mha", {"norm": "no"}, "norm .*not 'no'"),
    ("layer_attention", {"variant": "cls"}, "variant must be one of"),
    ("layer_attention", {"scale": 2}, "scale must be one of"),
    ("hire", {"scores": "fixed"}, "scores must be one of"),
    ("hire", {"layers": [4]}, r"layers .*not \[4\]"),
    ("hire", {"layers": [1, 1]}, "layers .*different"),
    ("hire", {"layers": []}, r"layers .*not \[\]"),
    ("hire", {"layers": [-1]}, "layers .*from 0"),
    ("hire", {"fusion_layers": -1}, "fusion_layers .*not -1"),
    ("hire", {"dropout": 1.5}, "dropout .*not 1.5"),
    ("hire", {"scores": "none", "layers": [1]}, "leave `layers` out"),
    ("hire", {"scores": "none", "fusion_layers": None}, "`pooling: cls`"),
    ("hire", {"scores": "mean", "states_at_once": 2}, "states_at_once .*dynamic"),
    ("hire", {"states_at_once": 0}, "states_at_once .*not 0"),
    ("hire", {"heads": 2}, "no option 'heads'"),
    ("concat", {"parts": ["cls"]}, "two or more"),
    ("concat", {"parts": ["cls", "tokens"]}, "two or more"),
    ("concat", {"parts": ["cls", {"name": "tokens"}]}, "two or more"),
    ("concat", {"parts": ["cls", "mena"]}, "'mean'"),
    ("concat", {"parts": ["cls", {"last": 2}]}, "parts must be a name or"),
    ("concat", {"parts": ["cls", {"name": "max_cls", "lats": 2}]}, "'lats' .*'last'"),
    ("concat", {"parts": ["cls", {"name": "max_cls", "last": "2"}]}, "last .*not '2'"),
    ("concat", {"parts": ["cls", 3]}, "parts must be a list"),
]


@pytest.mark.parametrize(("name", "options", "line"), BAD_OPTIONS)
def test_bad_options_are_one_line(name, options, line):
    with pytest.raises(UserError, match=line) as caught:
        build("pooling", name, options, {"dim": D, "num_layers": LAYERS})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["mha", "hire", "concat"])
def test_dropout_acts_in_training_alone(name):
    options = {"parts": ["cls", {"name": "mha", "dropout": 0.4}]} if name == "concat" else {}
    options = options or {"dropout": 0.4}
    pooler = build("pooling", name, options, {"dim": D, "num_layers": LAYERS}).double()
    hidden, mask = states(pooler)
    assert not torch.equal(pooler.train()(hidden, mask), pooler(hidden, mask))
    assert torch.equal(pooler.eval()(hidden, mask), pooler(hidden, mask))
