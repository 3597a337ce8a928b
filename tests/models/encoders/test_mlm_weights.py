"""The masked-LM heads of checkpoints give our head the logits of `transformers`."""

import pytest
import torch
import transformers

from heads.masked_lm import MaskedLMHead
from multitask.models.encoders import hf
from multitask.models.encoders.bert_weights import read_weights
from multitask.models.encoders.hf_layout import LAYOUTS
from multitask.models.encoders.mlm_weights import mlm_weights
from tests.conftest import save_tiny_encoder

# another activation than the exact gelu, by default
OTHER = {"albert": "hidden_act", "nomic_bert": "hidden_act"}
WITH_HEAD = [kind for kind, layout in LAYOUTS.items() if layout.heads]
every_head = pytest.mark.parametrize("kind", WITH_HEAD)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Masked language models, every weight of which is random."""
    made = {}
    for kind in WITH_HEAD:
        changes = {OTHER[kind]: "gelu"} if kind in OTHER else {}
        made[kind] = tmp_path_factory.mktemp(kind)
        save_tiny_encoder(made[kind], kind, "AutoModelForMaskedLM", **changes)
        model = transformers.AutoModelForMaskedLM.from_pretrained(made[kind])
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        model.save_pretrained(made[kind])
    return made


def head_of(directory):
    config = transformers.AutoConfig.from_pretrained(directory)
    return mlm_weights(read_weights(str(directory), config), config)


@every_head
def test_our_head_gives_the_logits_of_transformers(directories, kind):
    plain = transformers.AutoModelForMaskedLM.from_pretrained(directories[kind]).eval()
    encoder = hf.encoder_from_pretrained(str(directories[kind])).eval()
    weights = head_of(directories[kind])
    head = MaskedLMHead(encoder.dim, encoder.word_embedding, encoder.norm_eps, weights)
    ids = torch.randint(5, 40, (2, 7), generator=torch.Generator().manual_seed(1))
    mask, types = torch.ones_like(ids), torch.zeros_like(ids)
    with torch.no_grad():
        expected = plain(input_ids=ids, attention_mask=mask).logits
        states = encoder.encode(encoder.embed(ids, types, mask), mask, (2,))[2]
        torch.testing.assert_close(head(states), expected, rtol=1e-5, atol=1e-5)


@every_head
def test_a_head_with_another_activation_is_none(directories, kind):
    config = transformers.AutoConfig.from_pretrained(directories[kind])
    weights = read_weights(str(directories[kind]), config)
    for place in LAYOUTS[kind].heads:
        if place.activation:
            setattr(config, place.activation, "silu")
    found = mlm_weights(weights, config)
    assert (found is None) == all(place.activation for place in LAYOUTS[kind].heads)


@pytest.mark.parametrize("kind", [kind for kind in LAYOUTS if kind not in WITH_HEAD])
def test_a_type_without_such_a_head(kind, tmp_path):
    save_tiny_encoder(tmp_path, kind, "AutoModelForMaskedLM")
    assert head_of(tmp_path) is None


def test_the_decoders_spelling_of_the_bias_half_precision_and_half_a_head(directories, tmp_path):
    config = transformers.AutoConfig.from_pretrained(directories["bert"])
    weights = read_weights(str(directories["bert"]), config)
    full = mlm_weights(weights, config)
    spelled = {
        k.replace("predictions.bias", "predictions.decoder.bias"): v.half()
        for k, v in weights.items()
    }
    found = mlm_weights(spelled, config)
    torch.testing.assert_close(found, full, rtol=1e-2, atol=1e-2)
    assert all(tensor.dtype == torch.float32 for tensor in found.values())
    for name in [name for name in weights if name.startswith("cls")]:
        assert mlm_weights({k: v for k, v in weights.items() if k != name}, config) is None


def test_a_separate_decoder_is_not_a_tied_head(directories):
    config = transformers.AutoConfig.from_pretrained(directories["bert"])
    weights = read_weights(str(directories["bert"]), config)
    other = torch.zeros_like(weights["embeddings.word_embeddings.weight"])
    assert mlm_weights({**weights, "cls.predictions.decoder.weight": other}, config) is None
