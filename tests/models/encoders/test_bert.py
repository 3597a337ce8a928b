"""Our encoder equals `transformers` on the same weights, padding or not, and the chapter's calls
work.
"""

import copy
import weakref

import pytest
import torch
import transformers

from multitask.models import packaged_weights
from multitask.models.encoders import bert_weights
from multitask.models.encoders.bert import BertEncoder
from multitask.models.encoders.dropout import Dropout
from multitask.models.encoders.hf_layout import has_token_types
from tests.support import small_adapters as small
from tests.support.tiny_bert import ragged, random_checkpoint

KINDS = ("bert", "roberta", "mpnet")
every_kind = pytest.mark.parametrize("kind", KINDS)
SAME_AS_ROBERTA = ("xlm-roberta", "camembert")
LENGTHS = [9, 1, 4, 30, 31, 4, 2, 17]
# float32 sums in another order; float64 leaves no room for another formula
EXACT = {torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return {
        kind: random_checkpoint(tmp_path_factory.mktemp(kind), kind)
        for kind in (*KINDS, *SAME_AS_ROBERTA)
    }


def load(directory, dtype=torch.float64, **options):
    plain = transformers.AutoModel.from_pretrained(directory).to(dtype).eval()
    return plain, bert_weights.encoder_from_pretrained(str(directory), **options).to(dtype).eval()


def plain_states(model, ids, types, mask):
    """Every hidden state [B, T, d] by `transformers`; positions count real tokens."""
    typed = has_token_types(model.config)
    first = 0 if typed else model.embeddings.padding_idx + 1
    extra = {"token_type_ids": types} if typed else {}
    positions = (mask.cumsum(1) - 1).clamp(min=0) + first
    return model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        output_hidden_states=True,
        **extra,
    ).hidden_states


# ---- hidden states


def assert_same_states(plain, encoder, lengths, left, dtype):
    ids, types, mask = ragged(lengths, left)
    with torch.no_grad():
        expected = plain_states(plain, ids, types, mask)
        embedded = encoder.embed(ids, types, mask)
        actual = encoder.encode(embedded, mask, range(3))
        first = encoder.encode(embedded, mask, range(3), "first")
    at = mask.argmax(1)
    for layer, state in enumerate(expected):
        real = mask.unsqueeze(-1).to(dtype)
        scale = state.abs().max()
        assert ((actual[layer] - state) * real).abs().max() <= EXACT[dtype] * scale
        assert not (actual[layer] * (1 - real)).any()
        wanted = state[torch.arange(len(mask)), at]
        assert first[layer].shape == (len(mask), 1, 32)
        assert (first[layer][:, 0] - wanted).abs().max() <= EXACT[dtype] * scale


@every_kind
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize(
    "lengths", [LENGTHS, [5], [1, 1], [7] * 6, [62, 1, 3]], ids=lambda lengths: str(len(lengths))
)
def test_every_hidden_state_equals_transformers(directories, kind, left, dtype, lengths):
    assert_same_states(*load(directories[kind], dtype), lengths, left, dtype)


@pytest.mark.parametrize("kind", (*KINDS, *SAME_AS_ROBERTA))
def test_default_positions_are_those_of_transformers(directories, kind):
    """With pads behind, no position numbers need be given to `transformers`."""
    plain, encoder = load(directories[kind])
    ids, types, mask = ragged(LENGTHS)
    extra = {"token_type_ids": types} if kind == "bert" else {}
    with torch.no_grad():
        expected = plain(input_ids=ids, attention_mask=mask, **extra).last_hidden_state
        actual = encoder.encode(encoder.embed(ids, types, mask), mask, (2,))[2]
    assert ((actual - expected) * mask.unsqueeze(-1)).abs().max() < 1e-10


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("kind", (*KINDS, *SAME_AS_ROBERTA))
def test_a_pad_token_in_a_text_is_read_as_transformers_reads_it(directories, kind, left):
    """RoBERTa does not count it; BERT does. Its mask is 1, as the tokenizer says."""
    plain, encoder = load(directories[kind])
    ids, types, mask = ragged(LENGTHS, left)
    pads = torch.zeros_like(mask).bernoulli_(0.3, generator=torch.Generator().manual_seed(2)) * mask
    pad = 1 if kind == "mpnet" else plain.config.pad_token_id  # MPNet's code has no other
    ids = torch.where((pads == 1) | (mask == 0), pad, ids)
    assert pads.any(1).sum() > 3
    with torch.no_grad():
        if kind == "bert":
            expected = plain_states(plain, ids, types, mask)[2]
        else:
            expected = plain(input_ids=ids, attention_mask=mask).last_hidden_state
        actual = encoder.encode(encoder.embed(ids, types, mask), mask, (2,))[2]
    assert ((actual - expected) * mask.unsqueeze(-1)).abs().max() < 1e-10


def assert_same_gradients(plain, encoder, lengths, left, dtype, tokens="all"):
    """Of a random sum over every state; each relative to the gradient's largest entry."""
    ids, types, mask = ragged(lengths, left)
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(3, len(mask), 1, 32, dtype=dtype, generator=generator)
    if tokens == "all":
        weights = weights * mask[None, :, :, None]
    else:
        chosen = torch.nn.functional.one_hot(mask.argmax(1), mask.shape[1])
        weights = weights * chosen[None, :, :, None]
    expected = plain_states(plain, ids, types, mask)
    sum((w * s).sum() for w, s in zip(weights, expected, strict=True)).backward()
    actual = encoder.encode(encoder.embed(ids, types, mask), mask, range(3), tokens)
    if tokens == "first":
        weights = weights.sum(2, keepdim=True)
    sum((w * actual[layer]).sum() for layer, w in enumerate(weights)).backward()
    gradients = {name: parameter.grad for name, parameter in encoder.named_parameters()}
    theirs = {n: p.grad for n, p in plain.named_parameters() if not n.startswith("pooler")}
    ours = bert_weights.to_transformers(gradients, plain.config.model_type)
    assert set(ours) == set(theirs)
    for name, gradient in theirs.items():
        # softmax does not see the keys' bias: its gradient is 0 but for the rounding of its terms
        weight = name.replace("key.bias", "key.weight").replace(".k.bias", ".k.weight")
        scale = theirs[weight].abs().max()
        assert (ours[name] - gradient).abs().max() <= EXACT[dtype] * scale, name


@every_kind
@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("tokens", ["all", "first"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_gradients_equal_transformers(directories, kind, tokens, left, dtype):
    assert_same_gradients(*load(directories[kind], dtype), LENGTHS, left, dtype, tokens)


@pytest.mark.parametrize(("kind", "positions"), [("bert", 512), ("roberta", 513), ("mpnet", 514)])
def test_512_tokens_have_the_states_and_gradients_of_transformers(kind, positions, tmp_path):
    directory = random_checkpoint(tmp_path, kind, max_position_embeddings=positions)
    models, lengths = load(directory), [512, 1, 40]
    assert_same_states(*models, lengths, False, torch.float64)
    assert_same_gradients(*models, lengths, False, torch.float64)


def test_packaged_weights_give_the_packages_hidden_states():
    pytest.importorskip(packaged_weights.MINILM, reason="the packaged encoder is not installed")
    plain, encoder = load(packaged_weights.packaged_directory(), torch.float32)
    ids, types, mask = ragged([12, 3, 512, 7, 1], vocabulary=30000)
    with torch.no_grad():
        expected = plain_states(plain, ids, types, mask)
        actual = encoder.encode(encoder.embed(ids, types, mask), mask, range(7))
    for layer, state in enumerate(expected):
        assert ((actual[layer] - state) * mask.unsqueeze(-1)).abs().max() < 1e-5 * max(
            1, state.abs().max()
        )


# ---- what is asked for, and no more


@pytest.mark.parametrize("tokens", ["all", "first"])
@pytest.mark.parametrize("layers", [(2,), (1,), (0, 1), (0,)], ids=str)
def test_only_what_is_asked_for_is_computed(directories, tokens, layers):
    _, encoder = load(directories["bert"])
    ids, types, mask = ragged(LENGTHS)
    rows = []
    for layer in encoder.layers:
        layer.feed_forward.register_forward_hook(lambda m, args, out: rows.append(len(args[0])))
    actual = encoder.encode(encoder.embed(ids, types, mask), mask, layers, tokens)
    assert set(actual) == set(layers)
    expected = [sum(LENGTHS)] * max(layers)
    if tokens == "first" and max(layers):
        expected[-1] = len(LENGTHS)
    assert rows == expected


@pytest.mark.parametrize(
    ("tokens", "layers"), [("all", {3}), ("all", {2, 3}), ("first", {1, 3}), ("all", {0, 1, 3})]
)
def test_what_was_not_asked_for_is_let_go(tokens, layers):
    """While the top layer runs, only states that are asked for are alive, and its input."""
    encoder = BertEncoder(vocab_size=50, dim=16, num_layers=3, heads=2).eval()
    alive, outputs = [], {}

    def remember(number):
        def hook(module, given, output):
            outputs[number] = weakref.ref(output)

        return hook

    def look(module, given):
        alive.append({number for number, state in outputs.items() if state() is not None})

    for number, layer in enumerate(encoder.layers, 1):
        layer.register_forward_hook(remember(number))
    encoder.layers[2].register_forward_pre_hook(look)
    ids, types, mask = ragged([5, 3], False)
    with torch.no_grad():
        encoder.encode(encoder.embed(ids, types, mask), mask, layers, tokens)
    complete = layers if tokens == "all" else set()
    assert alive == [{2} | (complete & {1, 2})]


def test_matrix_products_see_no_pads(directories):
    _, encoder = load(directories["bert"])
    ids, types, mask = ragged(LENGTHS)
    seen = []
    for module in encoder.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.LayerNorm | torch.nn.Embedding):
            module.register_forward_pre_hook(lambda m, args: seen.append(len(args[0])))
    encoder.encode(encoder.embed(ids, types, mask), mask, (2,))
    assert set(seen) == {sum(LENGTHS)}


# ---- training


def test_dropout_acts_in_training_alone_and_follows_the_seed(directories):
    _, encoder = load(directories["bert"], torch.float32)
    ids, types, mask = ragged(LENGTHS)

    def run(seed):
        torch.manual_seed(seed)
        return encoder.encode(encoder.embed(ids, types, mask), mask, (2,))[2]

    assert torch.equal(run(0), run(1))
    encoder.train()
    assert torch.equal(run(0), run(0))
    assert not torch.allclose(run(0), run(1), atol=1e-3)


@pytest.mark.parametrize("dropout", [None, 0.0, 0.3])
def test_the_hidden_dropout_can_be_replaced_and_attentions_stays(directories, dropout):
    encoder = load(directories["bert"], dropout=dropout)[1]
    rates = {
        module.rate
        for name, module in encoder.named_modules()
        if isinstance(module, Dropout) and not name.endswith("attention.dropout")
    }
    assert rates == {0.1 if dropout is None else dropout}
    assert {layer.attention.dropout.rate for layer in encoder.layers} == {0.1}


def test_without_dropout_training_equals_evaluation(directories):
    _, encoder = load(directories["bert"], dropout=0.0)
    for layer in encoder.layers:
        layer.attention.dropout.rate = 0.0
    ids, types, mask = ragged(LENGTHS)
    result = [
        encoder.train(mode).encode(encoder.embed(ids, types, mask), mask, (2,))[2]
        for mode in (True, False)
    ]
    assert torch.equal(*result)


@pytest.mark.parametrize("tokens", ["all", "first"])
def test_gradient_checkpointing_changes_no_gradient(directories, tokens):
    gradients = []
    for checkpointing in (False, True):
        encoder = load(directories["bert"], torch.float32)[1].train()
        encoder.gradient_checkpointing = checkpointing
        ids, types, mask = ragged(LENGTHS)
        torch.manual_seed(4)
        calls = []
        encoder.layers[0].register_forward_pre_hook(lambda m, a, calls=calls: calls.append(1))
        encoder.encode(encoder.embed(ids, types, mask), mask, (1, 2), tokens)[2].sum().backward()
        assert len(calls) == 1 + checkpointing
        gradients.append([p.grad for p in encoder.parameters()])
    for plain, checkpointed in zip(*gradients, strict=True):
        assert torch.equal(plain, checkpointed)


def test_bf16_autocast_stays_close_and_keeps_norms_in_fp32(directories):
    _, encoder = load(directories["bert"], torch.float32)
    ids, types, mask = ragged(LENGTHS)
    exact = encoder.encode(encoder.embed(ids, types, mask), mask, range(3))
    norms = []
    for module in encoder.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.register_forward_hook(lambda m, args, out: norms.append(out.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        result = encoder.encode(encoder.embed(ids, types, mask), mask, range(3))
    assert set(norms) == {torch.float32}
    for layer, state in exact.items():
        assert result[layer].dtype == torch.float32
        torch.testing.assert_close(result[layer], state, rtol=0.05, atol=0.1)


def test_fresh_top_layers_and_only_those(directories):
    _, encoder = load(directories["bert"], torch.float32)
    before = copy.deepcopy(encoder.state_dict())
    encoder.reinitialise(0)
    assert all(torch.equal(t, before[n]) for n, t in encoder.state_dict().items())
    encoder.reinitialise(1)
    for name, tensor in encoder.state_dict().items():
        fresh = name.startswith("layers.1.")
        assert torch.equal(tensor, before[name]) == (not fresh), name
        if fresh and tensor.ndim == 2:
            assert tensor.std() == pytest.approx(0.02, rel=0.15)
        elif fresh:
            assert set(tensor.tolist()) == ({1.0} if "norm.weight" in name else {0.0})


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="5 attention heads do not divide the width 12"):
        BertEncoder(vocab_size=9, dim=12, num_layers=1, heads=5)


class Stub(torch.nn.Module):
    """Adds a constant at one of the three places of layer 1."""

    layers = (1,)

    def __init__(self, place, constant):
        super().__init__()
        self.place, self.constant, self.given = place, constant, None

    def after_attention(self, layer, rows):
        return rows + self.constant if self.place == "attention" else rows

    def after_feed_forward(self, layer, rows):
        return rows + self.constant if self.place == "feed-forward" else rows

    def term(self, layer, name, rows):
        return None

    def beside(self, layer, hidden, first, attend):
        self.given = hidden
        return self.constant.expand_as(hidden) if self.place == "beside" else None


@pytest.mark.parametrize("place", ["attention", "feed-forward", "beside"])
def test_what_an_adapter_adds_goes_into_the_right_sum(place):
    """The term beside the layer: into the second LayerNorm alone, through no matrix before it."""
    bert = small.encoder()
    given, mask = small.embedded()
    sums = {}
    for norm in small.NORMS:
        module = getattr(bert.layers[0], norm)
        module.register_forward_pre_hook(lambda m, args, n=norm: sums.update({n: args[0]}))
    plain = bert.encode(given, mask, (1,)) and dict(sums)
    constant = torch.linspace(1, 2, small.D, dtype=torch.float64)
    stub = Stub(place, constant)
    bert.encode(given, mask, (1,), "all", stub)
    at_first, at_second = (sums[norm] - plain[norm] for norm in small.NORMS)
    if place == "attention":
        torch.testing.assert_close(at_first, constant.expand_as(at_first))
    else:
        assert not at_first.any()
        torch.testing.assert_close(at_second, constant.expand_as(at_second))
    # the layer's input, shortest sentence first, and not what attention has made of it
    rows = sorted(small.sentences(given, mask), key=len)
    torch.testing.assert_close(stub.given, torch.cat(rows), rtol=0, atol=0)
