"""``attention RUN --text ...`` on a run, on an encoder of either kind, and on what is neither."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from multitask.models.encoders import bert_weights
from tests.conftest import save_tiny_encoder
from tests.support.commands import main, trained
from tests.support.messages import complaint

TEXT = "a good film , not dull"


@pytest.fixture(scope="module")
def run_dir(tiny_encoder: Path, course_files: Path, tmp_path_factory) -> Path:
    """A run whose task `sts` is served by other weights than the other tasks."""
    changes = ["training.max_steps=2", "training.select=per_task"]
    directory = tmp_path_factory.mktemp("runs") / "run"
    trained(directory, tiny_encoder, course_files, *changes)
    best = json.loads((directory / "best.json").read_text())
    tensors = load_file(directory / "weights" / f"step-{best['sts']:08d}.safetensors")
    moved = {name: 3 * t if "encoder." in name else t for name, t in tensors.items()}
    save_file(moved, directory / "weights" / "step-00000099.safetensors")
    (directory / "best.json").write_text(json.dumps(best | {"sts": 99}))
    return directory


def expected(directory: Path, encoder_dir: Path, weights: Path | None, *texts: str):
    """[CLS] rows [L, h, T] by `transformers`, with the encoder's tensors in ``weights``."""
    model = transformers.AutoModel.from_pretrained(encoder_dir, attn_implementation="eager").eval()
    if weights is not None:
        encoder = bert_weights.encoder_from_config(str(directory / "encoder"))
        actual = load_file(weights)
        encoder.load_state_dict(
            {n.removeprefix("encoder."): t for n, t in actual.items() if n.startswith("encoder.")}
        )
        model.load_state_dict(bert_weights.to_transformers(encoder.state_dict()), strict=False)
    ready = transformers.AutoTokenizer.from_pretrained(encoder_dir)(*texts, return_tensors="pt")
    with torch.no_grad():
        return torch.stack(model(**ready, output_attentions=True).attentions)[:, 0, :, 0].numpy()


@pytest.mark.parametrize("task", [None, "sts"])
def test_a_run_gives_pictures_and_numbers(task, run_dir, tiny_encoder, tmp_path, capsys):
    output = tmp_path / "new" / "pair"
    choice = [] if task is None else ["--task", task]
    arguments = ["--text", TEXT, "--text", "the cat", "--heads", "--output", output]
    assert main("attention", run_dir, *arguments, *choice) == 0
    names = {"pair.png", "pair.svg", "pair-heads.png", "pair-heads.svg", "pair.json"}
    assert {file.name for file in output.parent.iterdir()} == names
    printed = capsys.readouterr().out.splitlines()
    assert {line.removeprefix(f"written: {output.parent}/") for line in printed} == names
    actual = json.loads(output.with_suffix(".json").read_text())
    assert list(actual) == ["source", "task", "texts", "tokens", "separators", "mean", "heads"]
    assert (actual["source"], actual["task"]) == (str(run_dir), task or "sst")
    assert actual["texts"] == [TEXT, "the cat"]
    assert actual["tokens"] == f"[CLS] {TEXT} [SEP] the cat [SEP]".split()
    assert [actual["tokens"][place] for place in actual["separators"]] == ["[SEP]", "[SEP]"]
    step = json.loads((run_dir / "best.json").read_text())[task or "sst"]
    weights = run_dir / "weights" / f"step-{step:08d}.safetensors"
    rows = expected(run_dir, tiny_encoder, weights, TEXT, "the cat")
    np.testing.assert_allclose(actual["heads"], rows, rtol=0, atol=1e-6)
    np.testing.assert_allclose(actual["mean"], rows.mean(1), rtol=0, atol=1e-6)


def test_without_output_the_files_stand_in_the_run(run_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main("attention", run_dir, "--text", TEXT) == 0
    names = [f"attention.{end}" for end in ("json", "png", "svg")]
    assert sorted(file.name for file in run_dir.glob("attention*")) == names
    assert not list(tmp_path.iterdir())
    assert "heads" not in json.loads((run_dir / "attention.json").read_text())


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_an_encoder_of_either_implementation(kind, tmp_path, monkeypatch, capsys):
    directory = save_tiny_encoder(tmp_path / kind, kind)
    monkeypatch.chdir(tmp_path)
    assert main("attention", kind, "--text", TEXT, "--heads", "--output", "pic.png") == 0
    assert ("runs in `transformers`" in capsys.readouterr().out) == (kind == "distilbert")
    actual = json.loads((tmp_path / "pic.json").read_text())
    assert (actual["source"], actual["task"]) == (kind, None)
    assert len([*tmp_path.glob("pic*")]) == 5
    if kind == "bert":
        rows = expected(tmp_path, directory, None, TEXT)
        np.testing.assert_allclose(actual["heads"], rows, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.sum(actual["mean"], axis=1), 1, rtol=0, atol=1e-5)


def test_output_may_be_a_directory(tiny_encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures.d").mkdir()
    for output in (".", "pictures.d"):
        assert main("attention", tiny_encoder, "--text", TEXT, "--output", output) == 0
        assert (tmp_path / output / "attention.json").is_file()


def test_too_many_tokens_for_heads_leave_no_file(tmp_path, capsys):
    save_tiny_encoder(tmp_path / "wide", max_position_embeddings=200)
    words = ["--text", "cat " * 127, "--heads", "--output", tmp_path / "pic"]
    message = complaint(capsys, "attention", tmp_path / "wide", *words)
    assert message.startswith("--heads: ") and "129 tokens" in message
    assert not list(tmp_path.glob("pic*"))


def test_a_run_without_weights_is_refused(run_dir, tmp_path, capsys):
    copy = shutil.copytree(run_dir, tmp_path / "copy")
    (copy / "best.json").unlink()
    message = complaint(capsys, "attention", copy, "--text", "a")
    assert message.startswith(f"{copy}: the run has no evaluated weights yet")
