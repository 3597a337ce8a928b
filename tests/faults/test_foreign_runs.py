"""A run directory, an encoder or an index from someone else: one line, and no time or memory."""

import json
import os
import shutil
import struct

import pytest

from tests.conftest import ROOT
from tests.support.messages import complaint

SIZES = ["num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size"]


@pytest.fixture
def run(tiny_run, tmp_path):
    """A finished run of two tiny encoder layers, 32 wide, whose checksums somebody removed."""
    copy = shutil.copytree(tiny_run, tmp_path / "run")
    (copy / "encoder" / "SHA256SUMS").unlink()
    (copy / "checksums").unlink()
    return copy


def change(file, key, value) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))


@pytest.mark.parametrize("key", SIZES)
@pytest.mark.parametrize("size", [96, 10**9, 1e9])
def test_a_size_of_the_encoder_that_its_weights_do_not_have(key, size, run, capsys):
    change(run / "encoder" / "config.json", key, size)
    line = complaint(capsys, "evaluate", run)
    assert "do not fit the config" in line if size == 96 else f"config.json: {key} is" in line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", -1),
        ("hidden_dropout_prob", 2),
        ("hidden_dropout_prob", 1.0),
        ("attention_probs_dropout_prob", -0.1),
        ("layer_norm_eps", float("nan")),
    ],
)
def test_a_number_of_the_encoder_that_no_encoder_has(key, value, run, capsys):
    change(run / "encoder" / "config.json", key, value)
    assert f"config.json: {key} is {value}" in complaint(capsys, "evaluate", run)


@pytest.mark.parametrize("name", ["best.json", "encoder/tokenizer.json"])
def test_a_pipe_in_the_place_of_a_file(name, run, capsys):
    (run / name).unlink()
    os.mkfifo(run / name)
    complaint(capsys, "evaluate", run)


def test_an_encoder_directory_with_a_thousand_million_layers(run, capsys):
    change(run / "encoder" / "config.json", "num_hidden_layers", 10**9)
    line = complaint(capsys, "check", ROOT / "configs/demo.yaml", f"encoder.name={run}/encoder")
    assert "num_hidden_layers is 1,000,000,000, the largest is 1,000" in line


@pytest.mark.parametrize("size", [10**6, 10**8])
def test_a_method_of_the_saved_config_that_is_larger_than_the_weights(size, run, capsys):
    config = run / "config.yaml"
    text, written = config.read_text(), "projection: null\n"
    assert written in text
    larger = f"projection:\n      name: linear\n      output_dim: {size}\n"
    config.write_text(text.replace(written, larger, 1))
    line = complaint(capsys, "evaluate", run)
    assert ("do not fit the config" if size == 10**6 else "output_dim: expected") in line


def word_beyond(tokenizer: dict) -> None:
    tokenizer["model"]["vocab"]["film"] = 1_000


def token_beyond(tokenizer: dict) -> None:
    tokenizer["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [1_000]


@pytest.mark.parametrize("change", [word_beyond, token_beyond])
def test_token_ids_beyond_the_embeddings(change, run, capsys):
    file = run / "encoder" / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    change(tokenizer)
    file.write_text(json.dumps(tokenizer))
    assert "the id 1000, but the encoder has 63 embeddings" in complaint(capsys, "evaluate", run)


def test_a_thousand_million_labels(run, capsys):
    change(run / "encoder" / "config.json", "num_labels", 10**9)
    assert "num_labels is 1,000,000,000, the largest is" in complaint(capsys, "evaluate", run)


def test_integers_in_the_place_of_weights(run, capsys):
    for file in (run / "weights").iterdir():
        content = file.read_bytes().replace(b'"dtype":"F32"', b'"dtype":"I32"', 1)
        file.write_bytes(content.replace(b"multitask_sha256", b"multitask_sha25x"))  # no checksum
    shutil.rmtree(run / "checkpoints")
    assert " of integers there and [" in complaint(capsys, "evaluate", run)


def test_a_header_of_the_weights_that_takes_long_to_read(run, capsys):
    file = min((run / "weights").iterdir())
    shutil.rmtree(run / "checkpoints")
    content = json.dumps({f"t{i}": i for i in range(800_000)}).encode()
    file.write_bytes(struct.pack("<Q", len(content)) + content)
    line = complaint(capsys, "evaluate", run)
    assert str(file) in line and f"a header of {len(content):,} bytes" in line
