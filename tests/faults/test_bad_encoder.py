"""A name that is no encoder, or a damaged one: exit code 2 and one line that says what to do."""

import shutil
from pathlib import Path

import pytest


def test_encoder_that_is_neither_directory_nor_reachable(refused):
    line = refused("encoder.name=no/such-bert")
    assert line.startswith("command line: encoder.name=no/such-bert: encoder.name: ")
    for part in (
        "'no/such-bert' is neither a directory nor an encoder",
        f"tried {Path('no/such-bert').absolute()} and huggingface.co/no/such-bert",
        "Without the hub: packaged-minilm, or a directory with config.json",
    ):
        assert part in line


DAMAGE = {
    "model.safetensors": None,
    "tokenizer.json": None,
    "config.json": None,
    "half model.safetensors": lambda data: data[: len(data) // 2],
    "half config.json": lambda data: data[: len(data) // 2],
    "bomb config.json": lambda data: data.replace(b"{", b'{"num_labels": 1' + b"0" * 30 + b",", 1),
    "foreign config.json": lambda data: b'{"model_type": "gpt2"}',
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_directory_with_an_incomplete_encoder(damage, refused, tiny_encoder, tmp_path):
    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    file = encoder / damage.split()[-1]
    change = DAMAGE[damage]
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    line = refused(f"encoder.name={encoder}")
    assert f"encoder.name: cannot load '{encoder}' as an encoder: " in line


def test_empty_directory_is_no_encoder(refused, tmp_path):
    assert f"encoder.name: cannot load '{tmp_path}' as an encoder: " in refused(
        f"encoder.name={tmp_path}"
    )
