"""The recomputed attention weights are those of `transformers`, and those that our layers use."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from multitask.inference.analysis.attention_weights import (
    attention_weights,
    cls_attention,
    layer_attention,
)
from multitask.models.encoders import bert_weights, hf
from multitask.models.encoders.hf_layout import LAYOUTS
from multitask.models.encoders.packing import Packing
from multitask.models.pretrained import load_tokenizer
from multitask.utils.errors import UserError
from pals.houlsby import Houlsby
from tests.support.tiny_bert import ragged, random_checkpoint

KINDS = ("bert", "roberta", "mpnet")
LENGTHS = [9, 1, 4, 30]


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Tiny encoders whose weights are far from 0, so that attention is far from uniform."""
    return {
        kind: random_checkpoint(tmp_path_factory.mktemp(kind), kind, scale=0.2) for kind in LAYOUTS
    }


def eager(directory, ids, types, mask):
    """The weights from `transformers` itself: one [B, h, T, T] a layer."""
    plain = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    typed = getattr(plain.config, "type_vocab_size", 1) > 1
    first = plain.embeddings.padding_idx + 1 if LAYOUTS[plain.config.model_type].padding_id else 0
    extra = {"token_type_ids": types} if typed else {}
    extra["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0) + first
    with torch.no_grad():
        return plain(input_ids=ids, attention_mask=mask, output_attentions=True, **extra).attentions


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_weights_equal_those_of_transformers(directories, kind, left):
    ids, types, mask = ragged(LENGTHS, left)
    encoder = bert_weights.encoder_from_pretrained(str(directories[kind])).eval()
    actual = attention_weights(encoder, ids, types, mask)
    expected = eager(directories[kind], ids, types, mask)
    assert len(actual) == len(expected) == 2
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.shape == theirs.shape == (4, 4, 30, 30)
        assert ours.dtype == torch.float32
        assert theirs[3].std() > 0.03  # far from uniform: another formula would show
        assert ((ours - theirs) * mask[:, None, :, None]).abs().max() < 1e-6
        check_rows(ours, mask)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_the_encoder_of_transformers_gives_its_own_weights(directories, kind):
    ids, types, mask = ragged(LENGTHS)
    encoder = hf.encoder_from_pretrained(str(directories[kind])).eval()
    before = encoder.model.config._attn_implementation
    actual = attention_weights(encoder, ids, types, mask)
    assert encoder.model.config._attn_implementation == before
    arguments = {"input_ids": ids, "attention_mask": mask, "output_attentions": True}
    if encoder.takes_token_types:
        arguments["token_type_ids"] = types
    plain = transformers.AutoModel.from_pretrained(
        directories[kind], attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        expected = plain(**arguments).attentions
    for ours, theirs in zip(actual, expected, strict=True):
        assert ((ours - theirs) * mask[:, None, :, None]).abs().max() < 1e-6
        check_rows(ours, mask)


def test_an_encoder_that_gives_no_weights_is_refused(directories, monkeypatch):
    encoder = hf.encoder_from_pretrained(str(directories["electra"])).eval()
    nothing = SimpleNamespace(attentions=None)
    monkeypatch.setattr(encoder.model, "forward", lambda *_, **__: nothing)
    with pytest.raises(UserError, match="electra"):
        attention_weights(encoder, *ragged(LENGTHS))


def check_rows(weights, mask):
    """A token's row sums to 1; pads have exactly 0, as query and as key."""
    sums = weights.sum(-1)
    torch.testing.assert_close(sums, mask[:, None].expand_as(sums).to(sums), rtol=0, atol=1e-5)
    pads = mask == 0
    assert not weights.masked_select(pads[:, None, None].expand_as(weights)).any()
    assert not weights.masked_select(pads[:, None, :, None].expand_as(weights)).any()


def test_the_weights_are_those_that_the_layers_use(directories):
    """Weights times values through the output matrix: what the padding-free path computes."""
    encoder = bert_weights.encoder_from_pretrained(str(directories["bert"])).double().eval()
    ids, types, mask = ragged(LENGTHS)
    states = encoder.encode(encoder.embed(ids, types, mask), mask, range(2))
    packing = Packing(mask)
    for number, weights in enumerate(attention_weights(encoder, ids, types, mask)):
        part = encoder.layers[number].attention
        value = part.qkv(states[number])[..., 64:].unflatten(2, (4, 8)).transpose(1, 2)
        mixed = part.output((weights @ value).transpose(1, 2).flatten(2))
        used = part(packing.pack(states[number]), packing)
        torch.testing.assert_close(packing.pack(mixed), used, rtol=1e-10, atol=1e-10)


def test_an_encoder_in_training_mode_is_refused(directories):
    encoder = bert_weights.encoder_from_pretrained(str(directories["bert"])).train()
    with pytest.raises(ValueError, match=r"training mode: call encoder.eval\(\) first"):
        attention_weights(encoder, *ragged(LENGTHS))


@pytest.mark.parametrize("load", [bert_weights, hf], ids=["own", "transformers"])
@pytest.mark.parametrize(
    ("texts", "tokens", "separators"),
    [
        (["a good Film"], "[CLS] a good film [SEP]", [4]),
        (["a good film", "the cat"], "[CLS] a good film [SEP] the cat [SEP]", [4, 7]),
    ],
    ids=["text", "pair"],
)
def test_the_row_of_cls_with_its_tokens(directories, load, texts, tokens, separators):
    directory = directories["bert"]
    tokenizer = load_tokenizer(str(directory))
    encoder = load.encoder_from_pretrained(str(directory)).eval()
    actual = cls_attention(encoder, tokenizer, texts)
    assert (actual.tokens, actual.separators) == (tokens.split(), separators)
    ready = tokenizer(*([text] for text in texts), return_tensors="pt")
    arguments = (ready[name] for name in ("input_ids", "token_type_ids", "attention_mask"))
    expected = torch.stack(eager(directory, *arguments))[:, 0, :, 0]
    assert actual.weights.shape == (2, 4, len(actual.tokens))
    np.testing.assert_allclose(actual.weights, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(actual.mean, expected.mean(1), rtol=0, atol=1e-6)


def test_a_text_longer_than_the_positions_is_refused(directories):
    directory = str(directories["roberta"])
    encoder = bert_weights.encoder_from_pretrained(directory).eval()
    tokenizer = load_tokenizer(directory)
    assert len(cls_attention(encoder, tokenizer, ["a " * 61]).tokens) == 63
    with pytest.raises(UserError, match=r"64 tokens.* takes 63"):
        cls_attention(encoder, tokenizer, ["a " * 62])


def test_a_tasks_adapter_is_in_the_picture(directories):
    """It changes what layer 1 gives, and so the weights of layer 2, not those of layer 1."""
    ids, types, mask = ragged(LENGTHS)
    encoder = bert_weights.encoder_from_pretrained(str(directories["bert"])).eval()
    adapter = Houlsby(dim=32, num_layers=2, size=8).eval()
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    plain = attention_weights(encoder, ids, types, mask)
    actual = attention_weights(encoder, ids, types, mask, adapter)
    assert torch.equal(actual[0], plain[0])
    assert not torch.allclose(actual[1], plain[1], atol=1e-3)
    with torch.no_grad():
        embedded = encoder.embed(ids, types, mask)
        hidden = encoder.encode(embedded, mask, (1,), adapter=adapter)[1]
        expected = layer_attention(encoder.layers[1].attention, hidden, mask)
    torch.testing.assert_close(actual[1], expected)
