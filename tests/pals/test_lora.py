"""LoRA equals `peft` in both encoders; merged weights give the same states."""

import copy

import pytest
import torch
import transformers

from multitask.inference.export.export_parts import module_of
from multitask.models.encoders import bert_weights
from multitask.models.encoders.hf import HFEncoder
from multitask.models.encoders.hf_layout import LAYOUTS
from pals.lora import LoRA
from tests.conftest import save_tiny_encoder
from tests.support.small_adapters import noisy
from tests.support.tiny_bert import ragged

LENGTHS = [7, 2, 9]
R, ALPHA = 3, 5.0
OWN = [f"own {kind}" for kind, layout in LAYOUTS.items() if layout.own]


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return {kind: save_tiny_encoder(tmp_path_factory.mktemp(kind), kind) for kind in LAYOUTS}


@pytest.fixture(params=[*LAYOUTS, *OWN])
def encoder(directories, request):
    """An encoder in float64 whose every weight is random."""
    kind = request.param.removeprefix("own ")
    if kind != request.param:
        made = bert_weights.encoder_from_config(str(directories[kind]))
    else:
        config = transformers.AutoConfig.from_pretrained(directories[kind])
        made = HFEncoder(transformers.AutoModel.from_config(config))
    return noisy(made, 1).double().eval()


def every_map(encoder):
    return list(encoder.linear_maps()[0])


def states(encoder, adapter, tokens="all"):
    ids, types, mask = ragged(LENGTHS)
    embedded = encoder.embed(ids, types, mask)
    hidden = encoder.encode(embedded, mask, (1, 2), tokens, adapter)
    real = mask.bool() if tokens == "all" else mask[:, :1].bool()
    return [hidden[number][real] for number in (1, 2)]


@pytest.mark.parametrize("layers", [None, [2]], ids=str)
@pytest.mark.parametrize("chosen", ["usual", "every"])
def test_states_and_gradients_equal_peft(encoder, layers, chosen):
    peft = pytest.importorskip("peft", reason="needs peft: pip install -e '.[peft]'")
    if layers and len(encoder.linear_maps()) == 1:
        pytest.skip("ALBERT: its layers share their weights")
    targets = None if chosen == "usual" else every_map(encoder)
    adapter = LoRA(encoder.linear_maps(), R, ALPHA, targets, layers=layers).double()
    assert all(adapter.targets.values())
    noisy(adapter, 2)
    terms = {module_of(encoder, *place): term for place, term in adapter.pieces().items()}
    ids, types, mask = ragged(LENGTHS)
    if isinstance(encoder, HFEncoder):
        plain = copy.deepcopy(encoder.model)
        embedded = encoder.embed(ids, types, mask).detach()
    else:
        plain = transformers.AutoModel.from_config(encoder.config, add_pooling_layer=False)
        plain.load_state_dict(
            bert_weights.to_transformers(encoder.state_dict(), encoder.config.model_type)
        )
        plain = plain.double()
    settings = peft.LoraConfig(r=R, lora_alpha=ALPHA, target_modules=sorted(terms))
    model = peft.get_peft_model(plain.eval(), settings)
    theirs = {}
    for module, term in terms.items():
        layer = model.base_model.model.get_submodule(module)
        for ours, matrix in ((term.down, layer.lora_A), (term.up, layer.lora_B)):
            matrix["default"].load_state_dict(ours.state_dict())
            theirs[ours.weight] = matrix["default"].weight
    model.double()
    if isinstance(encoder, HFEncoder):
        given = {"inputs_embeds": embedded}
    else:
        given = {"input_ids": ids}
        if encoder.embeddings.token_type is not None:
            one = encoder.embeddings.token_type.num_embeddings == 1
            given["token_type_ids"] = torch.zeros_like(types) if one else types
    output = model(**given, attention_mask=mask, output_hidden_states=True)
    expected = [output.hidden_states[number][mask.bool()] for number in (1, 2)]
    result = states(encoder, adapter)
    for ours, wanted in zip(result, expected, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-10, atol=1e-11)
    sum((ours * ours).sum() for ours in result).backward()
    sum((wanted * wanted).sum() for wanted in expected).backward()
    for ours, wanted in theirs.items():
        torch.testing.assert_close(ours.grad, wanted.grad, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("tokens", ["all", "first"])
def test_merged_weights_give_the_same_states(encoder, tokens):
    adapter = LoRA(encoder.linear_maps(), R, ALPHA, every_map(encoder)).double()
    noisy(adapter, 2)
    before = copy.deepcopy(encoder.state_dict())
    merged = states(adapter.merged(encoder), None, tokens)
    for ours, wanted in zip(merged, states(encoder, adapter, tokens), strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-9, atol=1e-10)
    assert all(torch.equal(encoder.state_dict()[name], tensor) for name, tensor in before.items())


def test_dropout_acts_on_the_terms_alone(encoder):
    adapter = LoRA(encoder.linear_maps(), R, ALPHA, dropout=0.5).double()
    noisy(adapter, 2)
    plain = states(encoder, adapter)
    adapter.train()
    dropped = states(encoder, adapter)
    assert not torch.allclose(plain[0], dropped[0])
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.zero_()
    torch.testing.assert_close(states(encoder, adapter), states(encoder, None))


def test_a_last_part_of_a_name_is_a_target(encoder):
    names = every_map(encoder)
    last = names[0].rpartition(".")[2]
    adapter = LoRA(encoder.linear_maps(), targets=[last], layers=[1])
    assert adapter.targets == {1: [name for name in names if name.rpartition(".")[2] == last]}
