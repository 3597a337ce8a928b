"""A name that is no encoder, or a damaged one: exit code 2 and one line that says what to do."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from multitask import load
from multitask.models.encoders.hf_layout import LAYOUTS
from multitask.utils.errors import UserError
from tests.conftest import save_tiny_encoder
from tests.support.messages import complaint
from tests.support.panics import damage_tokenizer


@pytest.fixture
def encoder(tiny_encoder, tmp_path) -> Path:
    """A copy of the encoder that may be changed."""
    return shutil.copytree(tiny_encoder, tmp_path / "encoder")


def test_encoder_that_is_neither_directory_nor_reachable(refused):
    line = refused("encoder.name=no/such-bert")
    assert line.startswith("command line: encoder.name=no/such-bert: encoder.name: ")
    for part in (str(Path("no/such-bert").absolute()), "huggingface.co", "packaged-minilm"):
        assert part in line


DAMAGE = {
    "everything": None,
    "model.safetensors": None,
    "tokenizer.json": None,
    "config.json": None,
    "half model.safetensors": lambda data: data[: len(data) // 2],
    "half config.json": lambda data: data[: len(data) // 2],
    "bomb config.json": lambda data: data.replace(b"{", b'{"num_labels": 1' + b"0" * 30 + b",", 1),
    "foreign config.json": lambda data: b'{"model_type": "gpt2"}',
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_directory_with_an_incomplete_encoder(damage, refused, encoder):
    file = encoder / damage.split()[-1]
    change = DAMAGE[damage]
    if damage == "everything":
        shutil.rmtree(encoder)
        encoder.mkdir()
    elif change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    line = refused(f"encoder.name={encoder}")
    assert f"encoder.name: cannot load '{encoder}' as an encoder: " in line


@pytest.mark.parametrize("change", [lambda weight: weight.to(torch.int8),
                                    lambda weight: weight > 0,
                                    lambda weight: weight * float("inf")])  # fmt: skip
def test_values_that_are_no_weights(change, refused, encoder):
    file = encoder / "model.safetensors"
    tensors = load_file(file)
    name = next(key for key in tensors if key.endswith("query.weight"))
    save_file(tensors | {name: change(tensors[name])}, file, {"format": "pt"})
    assert "in place of weights" in refused(f"encoder.name={encoder}")


def test_an_id_of_a_token_that_no_vocabulary_has(refused, encoder):
    file = encoder / "tokenizer.json"
    values = json.loads(file.read_text())
    values["model"]["vocab"]["huge"] = 2**31
    file.write_text(json.dumps(values))
    assert "'huge' the id 2,147,483,648, the most is" in refused(f"encoder.name={encoder}")


def test_a_tokenizer_that_panics(refused, encoder, tiny_run, tmp_path, capsys):
    damage_tokenizer(encoder)
    line = refused(f"encoder.name={encoder}")
    assert "tokenizer.json: " in line
    run = shutil.copytree(tiny_run, tmp_path / "trained")
    (run / "encoder" / "SHA256SUMS").unlink()
    damage_tokenizer(run / "encoder")
    line = complaint(capsys, "evaluate", run)
    assert line.startswith(f"{run / 'encoder'}: ") and "tokenizer.json: " in line
    with pytest.raises(UserError, match=r"tokenizer\.json: "):
        load(run)


def test_an_encoder_of_another_type_is_refused_for_its_type(refused, encoder):
    """Not for its sizes: other types have other rules."""
    values = {"model_type": "neobert", "max_relative_positions": -1, "num_hidden_layers": 9_999}
    (encoder / "config.json").write_text(json.dumps(values))
    line = refused(f"encoder.name={encoder}")
    assert f"cannot load '{encoder}' as an encoder: model type 'neobert'" in line
    assert all(known in line for known in LAYOUTS)


def test_more_relative_positions_than_minus_one(refused, tmp_path):
    """DeBERTa: -1 are as many as positions."""
    encoder = save_tiny_encoder(tmp_path, "deberta-v2")
    values = json.loads((encoder / "config.json").read_text())
    assert values["max_relative_positions"] == -1
    (encoder / "config.json").write_text(json.dumps(values | {"max_relative_positions": -2}))
    assert "max_relative_positions is -2" in refused(f"encoder.name={encoder}")
