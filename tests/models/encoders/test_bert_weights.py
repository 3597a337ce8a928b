"""Real checkpoints in, checkpoints that `transformers` reads out."""

import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from multitask.models import packaged_weights
from multitask.models.encoders import bert_weights
from multitask.models.encoders.bert_weights import encoder_from_config, encoder_from_pretrained
from multitask.models.encoders.hf_layout import LAYOUTS
from tests.conftest import save_tiny_encoder

KINDS = tuple(kind for kind, layout in LAYOUTS.items() if layout.own)
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return {kind: save_tiny_encoder(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


def changed(source, target, change):
    """A copy of a checkpoint whose tensors ``change`` has changed."""
    shutil.copytree(source, target)
    tensors = change(load_file(target / "model.safetensors"))
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return str(target)


def pooler_of(directory):
    config = transformers.AutoConfig.from_pretrained(directory)
    return bert_weights.pooler_weights(bert_weights.read_weights(str(directory), config), config)


def assert_weights_are_the_files(encoder, file):
    """Bit for bit and in fp32, every tensor of both sides; the pooler's stand apart."""
    saved = load_file(file)
    saved.pop("embeddings.position_ids", None)  # 0, 1, 2, ...: a buffer of old checkpoints
    pooler = [saved.pop(f"pooler.dense.{kind}") for kind in ("weight", "bias")]
    state = bert_weights.to_transformers(encoder.state_dict(), encoder.config.model_type)
    assert set(state) == set(saved)
    for name, tensor in state.items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, saved[name]), name
    for tensor, expected in zip(pooler_of(file.parent), pooler, strict=True):
        assert torch.equal(tensor, expected)


@every_kind
def test_weights_are_the_checkpoints_bit_for_bit(directories, kind):
    encoder = encoder_from_pretrained(str(directories[kind]))
    assert (encoder.dim, encoder.num_layers) == (32, 2)
    assert encoder.max_positions == {"bert": 64, "mpnet": 62}.get(kind, 63)
    assert_weights_are_the_files(encoder, directories[kind] / "model.safetensors")
    assert all(p.requires_grad and not p.is_meta for p in encoder.parameters())


def test_packaged_weights_are_the_packages_bit_for_bit():
    pytest.importorskip(packaged_weights.MINILM, reason="the packaged encoder is not installed")
    directory = packaged_weights.packaged_directory()
    encoder = encoder_from_pretrained(str(directory))
    assert (encoder.dim, encoder.num_layers, encoder.max_positions) == (384, 6, 512)
    assert_weights_are_the_files(encoder, directory / "model.safetensors")


@every_kind
def test_what_is_saved_transformers_loads_back(directories, kind, tmp_path):
    encoder = encoder_from_pretrained(str(directories[kind]))
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter += torch.randn_like(parameter)
    bert_weights.save_pretrained(encoder, tmp_path)
    model, info = transformers.AutoModel.from_pretrained(
        tmp_path, output_loading_info=True, add_pooling_layer=False
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    ours = bert_weights.to_transformers(encoder.state_dict(), encoder.config.model_type)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in model.state_dict().items())
    again = encoder_from_pretrained(str(tmp_path))
    assert pooler_of(tmp_path) is None
    assert all(torch.equal(t, encoder.state_dict()[n]) for n, t in again.state_dict().items())


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("old", [False, True], ids=["weight", "gamma"])
def test_prefixes_old_names_half_precision_and_other_weights(directories, tmp_path, prefix, old):
    """As checkpoints with a masked-language head, of the first years or in fp16, are."""

    def rename(tensors):
        result = {"cls.predictions.bias": torch.zeros(3)}
        for name, tensor in tensors.items():
            if old and "LayerNorm" in name:
                name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
            result[prefix + name] = tensor.half()
        result[f"{prefix}embeddings.position_ids"] = torch.arange(64)[None]
        return result

    directory = changed(directories["bert"], tmp_path / "renamed", rename)
    plain = encoder_from_pretrained(str(directories["bert"])).state_dict()
    result = encoder_from_pretrained(directory)
    for name, tensor in result.state_dict().items():
        assert torch.equal(tensor, plain[name].half().float()), name
    assert pooler_of(directory) is not None


def test_a_checkpoint_in_several_files(directories, tmp_path):
    model = transformers.AutoModel.from_pretrained(directories["bert"])
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    plain = encoder_from_pretrained(str(directories["bert"])).state_dict()
    result = encoder_from_pretrained(str(tmp_path)).state_dict()
    assert all(torch.equal(tensor, plain[name]) for name, tensor in result.items())


@every_kind
def test_architecture_alone_has_the_same_tensors_with_new_values(directories, kind):
    built = encoder_from_config(str(directories[kind])).state_dict()
    loaded = encoder_from_pretrained(str(directories[kind])).state_dict()
    assert {k: v.shape for k, v in built.items()} == {k: v.shape for k, v in loaded.items()}
    assert not torch.equal(built["embeddings.word.weight"], loaded["embeddings.word.weight"])


# ---- checkpoints that will not do


def test_a_missing_weight_is_named(directories, tmp_path):
    lost = "encoder.layer.1.attention.self.key.bias"

    def drop(tensors):
        return {name: tensor for name, tensor in tensors.items() if name != lost}

    with pytest.raises(ValueError, match=f"lacks encoder weights, such as {lost}"):
        encoder_from_pretrained(changed(directories["bert"], tmp_path / "part", drop))


def test_a_weight_of_another_shape_is_named(directories, tmp_path):
    shutil.copytree(directories["bert"], tmp_path / "other")
    file = tmp_path / "other" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"intermediate_size": 48}))
    with pytest.raises(ValueError, match=r"intermediate.dense.weight: .* \[64, 32\], by config"):
        encoder_from_pretrained(str(tmp_path / "other"))


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"hidden_act": "gelu_new"}, "hidden_act is 'gelu_new', not 'gelu'"),
        ({"is_decoder": True}, "is_decoder is True, not False"),
        ({"model_type": "electra"}, "model type 'electra' is not one of bert, roberta"),
    ],
    ids=str,
)
def test_another_architecture_is_refused_with_the_reason(directories, tmp_path, change, reason):
    shutil.copytree(directories["bert"], tmp_path / "other")
    file = tmp_path / "other" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    for load in (encoder_from_pretrained, encoder_from_config):
        with pytest.raises(ValueError, match=reason):
            load(str(tmp_path / "other"))


def test_pickled_weights_are_refused(directories, tmp_path):
    directory = tmp_path / "pickled"
    shutil.copytree(directories["bert"], directory)
    file = directory / "model.safetensors"
    torch.save(load_file(file), directory / "pytorch_model.bin")
    file.unlink()
    with pytest.raises(OSError, match="safetensors"):
        encoder_from_pretrained(str(directory))
