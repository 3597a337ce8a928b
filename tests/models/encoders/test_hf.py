"""Two stages equal one `transformers` forward; the weights are those of the checkpoint."""

import copy
import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from multitask.models import packaged_weights, pretrained
from multitask.models.encoders.hf import HFEncoder, encoder_from_config, encoder_from_pretrained
from multitask.models.encoders.hf_layout import LAYOUTS, has_dropout
from multitask.utils.errors import UserError
from tests.conftest import save_tiny_encoder

KINDS = tuple(LAYOUTS)
TYPED = ("bert", "electra", "albert", "nomic_bert")
WITH_POOLER = tuple(kind for kind, layout in LAYOUTS.items() if layout.pooler)
# what stands between the embeddings and state 0
PROJECTIONS = {"electra": "embeddings_project", "albert": "encoder.embedding_hidden_mapping_in"}
every_kind = pytest.mark.parametrize("kind", KINDS)
LAYERS = (0, 1, 2)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Tiny models, all with dropout."""
    made = {}
    for kind, layout in LAYOUTS.items():
        rates = dict.fromkeys(layout.dropout, 0.1) or {"attention_dropout": 0.1}
        made[kind] = save_tiny_encoder(tmp_path_factory.mktemp(kind), kind, **rates)
    return made


@pytest.fixture
def pair(directories, kind):
    """A plain model whose every weight is random (a fresh LayerNorm applied twice would not show),
    and an encoder round a copy of it; both in eval mode."""
    plain = transformers.AutoModel.from_pretrained(directories[kind]).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return plain, HFEncoder(copy.deepcopy(plain))


def inputs(width=9):
    """Three sequences of different length; two segments."""
    generator = torch.Generator().manual_seed(1)
    mask = (torch.arange(width)[None] < torch.tensor([[width], [width // 2], [3]])).long()
    ids = torch.randint(5, 50, mask.shape, generator=generator) * mask
    types = (torch.arange(width)[None] >= 2) * mask
    return ids, types, mask


def plain_states(model, kind, ids, types, mask):
    typed = {"token_type_ids": types} if kind in TYPED else {}
    output = model(input_ids=ids, attention_mask=mask, output_hidden_states=True, **typed)
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    return dict(enumerate(output.hidden_states))


# ---- the two stages


@every_kind
@pytest.mark.parametrize("tokens", ["all", "first"])
@pytest.mark.parametrize("layers", [LAYERS, (2,), (1,), (0, 2)], ids=str)
def test_two_stages_equal_the_plain_model(pair, kind, tokens, layers):
    plain, encoder = pair
    ids, types, mask = inputs()
    with torch.no_grad():
        expected = plain_states(plain, kind, ids, types, mask)
        actual = encoder.encode(encoder.embed(ids, types, mask), mask, layers, tokens)
    assert set(actual) == set(layers)
    for layer in layers:
        wanted = expected[layer][:, :1] if tokens == "first" else expected[layer]
        torch.testing.assert_close(actual[layer], wanted, rtol=0, atol=1e-6)


@every_kind
def test_padding_changes_no_state(pair, kind):
    """Of texts that are longer than the window of local attention, too, which is 8 here."""
    encoder = pair[1].double()
    length, padded = 21, 40
    ids = torch.randint(5, 50, (1, length), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    wide = torch.nn.functional.pad(torch.cat([ids, ids.flip(1)]), (0, padded - length))
    wide_mask = (torch.arange(padded) < length).long().expand(2, -1)
    with torch.no_grad():
        alone = encoder.encode(encoder.embed(ids, 0 * ids, mask), mask, LAYERS)
        batch = encoder.encode(encoder.embed(wide, 0 * wide, wide_mask), wide_mask, LAYERS)
    for layer in LAYERS:
        torch.testing.assert_close(batch[layer][:1, :length], alone[layer], rtol=1e-9, atol=1e-9)


@every_kind
def test_token_types_matter_exactly_where_the_model_has_them(pair, kind):
    _, encoder = pair
    ids, types, mask = inputs()
    with torch.no_grad():
        first, second = (encoder.embed(ids, t, mask) for t in (types, torch.zeros_like(types)))
    assert torch.equal(first, second) == (kind not in TYPED)


@every_kind
def test_dropout_is_drawn_once_and_in_the_same_order(pair, kind):
    plain, encoder = pair
    ids, types, mask = inputs()
    plain.train(), encoder.train()
    with torch.no_grad():
        torch.manual_seed(5)
        expected = plain_states(plain, kind, ids, types, mask)
        after = torch.get_rng_state()
        torch.manual_seed(5)
        actual = encoder.encode(encoder.embed(ids, types, mask), mask, LAYERS)
        assert torch.equal(torch.get_rng_state(), after)
        assert not torch.allclose(actual[2], plain_states(plain.eval(), kind, ids, types, mask)[2])
    for layer in LAYERS:
        torch.testing.assert_close(actual[layer], expected[layer], rtol=0, atol=1e-6)


@every_kind
def test_encode_adds_nothing_to_the_embeddings(pair, kind):
    """No position, LayerNorm or dropout after `embed`, in train mode either."""
    _, encoder = pair
    ids, types, mask = inputs()
    encoder.train()
    embeddings = encoder.embed(ids, types, mask)
    result = encoder.encode(embeddings, mask, (0,))[0]
    project = dict(encoder.model.named_modules()).get(PROJECTIONS.get(kind), torch.nn.Identity())
    assert torch.equal(result, project(embeddings))


@every_kind
def test_a_perturbation_reaches_the_output_as_in_the_plain_model(pair, kind):
    plain, encoder = pair
    plain.double(), encoder.double()
    ids, types, mask = inputs()
    embeddings = encoder.embed(ids, types, mask).detach()
    noise = 0.1 * torch.randn_like(embeddings)
    seen = []

    def perturb(module, args, output):
        seen.append((output + noise).detach().requires_grad_())
        return seen[0]

    embeds = plain.get_submodule(encoder.layout.embeddings or encoder.layout.word)
    handle = embeds.register_forward_hook(perturb)
    expected = plain_states(plain, kind, ids, types, mask)[2]
    handle.remove()
    perturbed = (embeddings + noise).requires_grad_()
    actual = encoder.encode(perturbed, mask, (2,))[2]
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
    unperturbed = encoder.encode(embeddings, mask, (2,))[2]
    assert (actual - unperturbed).abs().max() > 1e-3
    direction = torch.randn_like(actual)
    (actual * direction).sum().backward()
    (expected * direction).sum().backward()
    torch.testing.assert_close(perturbed.grad, seen[0].grad, rtol=1e-10, atol=1e-10)


@every_kind
def test_every_weight_gets_the_plain_models_gradient(pair, kind):
    plain, encoder = pair
    plain.double(), encoder.double()
    ids, types, mask = inputs()
    weights = mask[..., None].double()
    (plain_states(plain, kind, ids, types, mask)[2] * weights).square().sum().backward()
    result = encoder.encode(encoder.embed(ids, types, mask), mask, (2,))[2]
    (result * weights).square().sum().backward()
    gradients = {name: p.grad for name, p in plain.named_parameters() if "pooler" not in name}
    assert set(gradients) == {name for name, _ in encoder.model.named_parameters()}
    for name, parameter in encoder.model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-8, atol=1e-8, msg=name)


@every_kind
def test_it_embeds_as_before_after_an_exception(pair, kind):
    _, encoder = pair
    ids, types, mask = inputs()
    with torch.no_grad():
        embeddings = encoder.embed(ids, types, mask)
        with pytest.raises(RuntimeError):
            encoder.encode(embeddings[..., :-1], mask, (2,))
        embeds = encoder.model.get_submodule(encoder.layout.embeddings or encoder.layout.word)
        assert "forward" not in vars(embeds)  # of its class, for copies too
        assert torch.equal(copy.deepcopy(encoder).embed(ids, types, mask), embeddings)
        assert torch.equal(encoder.embed(ids, types, mask), embeddings)


@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        ("bert", 64),
        ("distilbert", 64),
        ("electra", 64),
        ("roberta", 63),
        ("albert", 64),
        ("mpnet", 62),
    ],
)
def test_max_positions_is_the_longest_input(pair, kind, positions):
    _, encoder = pair
    assert encoder.max_positions == positions
    with torch.no_grad():
        encoder.embed(*inputs(positions))
        with pytest.raises((RuntimeError, IndexError)):
            encoder.embed(*inputs(positions + 1))


# ---- weights


def assert_weights_are_the_files(encoder, file):
    """Bit for bit and in fp32, every tensor of both sides; the pooler's stand apart."""
    saved = load_file(file)
    saved.pop("embeddings.position_ids", None)  # 0, 1, 2, ...: a buffer of old checkpoints
    saved = {name: tensor for name, tensor in saved.items() if not name.startswith("pooler.")}
    state = encoder.model.state_dict()
    assert set(state) == set(saved)
    for name, tensor in state.items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, saved[name]), name


@every_kind
def test_weights_are_the_checkpoints_bit_for_bit(directories, kind):
    encoder = encoder_from_pretrained(str(directories[kind]))
    assert (encoder.dim, encoder.num_layers) == (32, 2)
    if kind in ("nomic_bert", "gte"):  # the files have older names and one matrix for q, k and v
        plain = transformers.AutoModel.from_pretrained(directories[kind]).state_dict()
        state = encoder.model.state_dict()
        assert set(state) == set(plain)
        assert all(torch.equal(state[name], plain[name]) for name in plain)
    else:
        assert_weights_are_the_files(encoder, directories[kind] / "model.safetensors")


def test_packaged_weights_are_the_packages_bit_for_bit():
    pytest.importorskip(packaged_weights.MINILM, reason="the packaged encoder is not installed")
    directory = packaged_weights.packaged_directory()  # checks the sha256
    encoder = encoder_from_pretrained(str(directory))
    assert (encoder.dim, encoder.num_layers, encoder.max_positions) == (384, 6, 512)
    assert_weights_are_the_files(encoder, directory / "model.safetensors")


@every_kind
def test_architecture_alone_has_the_same_tensors(directories, kind):
    built = encoder_from_config(str(directories[kind]))
    loaded = encoder_from_pretrained(str(directories[kind]))
    shapes = [{k: v.shape for k, v in e.state_dict().items()} for e in (built, loaded)]
    assert shapes[0] == shapes[1]
    assert not torch.equal(built.word_embedding.weight, loaded.word_embedding.weight)


@every_kind
@pytest.mark.parametrize("dropout", [None, 0.3])
def test_dropout_option_replaces_the_hidden_dropout(directories, kind, dropout):
    directory = str(directories[kind])
    if dropout and not LAYOUTS[kind].dropout:
        with pytest.raises(UserError, match=kind):
            encoder_from_pretrained(directory, dropout=dropout)
        return
    encoder = encoder_from_pretrained(directory, dropout=dropout).double().train()
    wanted = transformers.AutoModel.from_pretrained(directory).config
    for key in LAYOUTS[kind].dropout:
        setattr(wanted, key, dropout or 0.1)
    plain = transformers.AutoModel.from_pretrained(directory, config=wanted).double().train()
    ids, types, mask = inputs()
    states = []
    for run in (
        lambda: plain_states(plain, kind, ids, types, mask)[2],
        lambda: encoder.encode(encoder.embed(ids, types, mask), mask, (2,))[2],
    ):
        torch.manual_seed(3)
        states.append(run())
    torch.testing.assert_close(*states, rtol=1e-10, atol=1e-10)
    assert has_dropout(encoder.config)


# ---- checkpoints that will not do


def changed(source, target, change):
    """A copy of a checkpoint with other tensors."""
    shutil.copytree(source, target)
    tensors = load_file(target / "model.safetensors")
    change(tensors)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return str(target)


def test_a_checkpoint_without_some_encoder_weights_is_an_error(directories, tmp_path):
    lost = "encoder.layer.1.output.dense.weight"
    directory = changed(directories["bert"], tmp_path / "part", lambda t: t.pop(lost))
    with pytest.raises(ValueError, match=f"lacks 1 encoder weights, such as {lost}"):
        encoder_from_pretrained(directory)


def test_another_architecture_is_an_error(tmp_path):
    config = transformers.GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=20, n_positions=8)
    transformers.GPT2Model(config).save_pretrained(tmp_path)
    for load in (encoder_from_pretrained, encoder_from_config):
        with pytest.raises(ValueError, match="model type 'gpt2' is not one of bert"):
            load(str(tmp_path))


def test_pickled_weights_are_refused(directories, tmp_path):
    directory = tmp_path / "pickled"
    shutil.copytree(directories["bert"], directory)
    file = directory / "model.safetensors"
    torch.save(load_file(file), directory / "pytorch_model.bin")
    file.unlink()
    with pytest.raises(OSError, match="safetensors"):
        encoder_from_pretrained(str(directory))


def test_a_tokenizers_own_padding_and_truncation_are_reset(directories, tmp_path):
    directory = tmp_path / "padded"
    shutil.copytree(directories["bert"], directory)
    file = directory / "tokenizer.json"
    settings = json.loads(file.read_text())
    baked = transformers.AutoTokenizer.from_pretrained(directory).backend_tokenizer
    baked.enable_padding(length=12, pad_token="[PAD]")
    baked.enable_truncation(4)
    settings |= {k: json.loads(baked.to_str())[k] for k in ("padding", "truncation")}
    file.write_text(json.dumps(settings))
    tokenizer = pretrained.load_tokenizer(str(directory))
    backend = tokenizer.backend_tokenizer
    assert backend.padding is None and backend.truncation is None
    assert len(tokenizer("the cat")["input_ids"]) == 4
    assert len(tokenizer("the cat " * 30)["input_ids"]) == 62
