"""Runs with a quantised encoder: config, start, training, export."""

import json
import re

import numpy as np
import pytest
import torch

from multitask import load
from multitask.config import load_config
from multitask.config.config import seen_corpora
from multitask.data.summary import data_warnings
from multitask.models.encoders.bitlinear import bit_layers
from multitask.models.encoders.ternary_file import load_ternary, save_ternary
from multitask.models.pretrained import load_head_weights, load_pretrained
from multitask.store.saved import SplitFacts
from tests.conftest import ROOT
from tests.support.commands import main
from tests.support.run_files import report_of

PRESET = ROOT / "configs" / "cs224n.yaml"
SST = ["tasks.qqp=null", "tasks.sts=null", "training.frozen_baseline=false"]


def losses(run_dir) -> list[float]:
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["event"] == "step"]


@pytest.fixture
def configure(tiny_overrides):
    return lambda *changes: load_config(PRESET, [*tiny_overrides, *SST, *changes])


def test_the_config_says_which_layers_become_ternary(configure):
    plain = load_pretrained(configure())
    encoder = load_pretrained(configure("encoder.bitlinear={}"))
    assert not bit_layers(plain) and len(bit_layers(encoder)) == 2 * 4
    for name, tensor in plain.state_dict().items():
        assert torch.equal(encoder.state_dict()[name], tensor)  # the loaded weights


def test_from_scratch_takes_the_architecture_alone(configure):
    scratch = "encoder.from_scratch"
    settings = [(1, "false"), (1, "true"), (1, "true"), (2, "true")]
    result = [load_pretrained(configure(f"seed={s}", f"{scratch}={on}")) for s, on in settings]
    loaded, first, again, other = (encoder.state_dict() for encoder in result)
    for name in ("embeddings.word.weight", "layers.0.attention.qkv.weight"):
        assert torch.equal(first[name], again[name])
        assert not torch.equal(first[name], other[name])
        assert not torch.equal(first[name], loaded[name])
        assert first[name].std().item() == pytest.approx(0.02, rel=0.2)
    pooler = "tasks.sst.projection=bert_pooler"
    weights = [load_head_weights(configure(f"{scratch}={on}", pooler)) for on in ("false", "true")]
    assert weights[0].pooler is not None and weights[1].pooler is None


def test_an_encoder_from_scratch_has_seen_nothing(configure):
    packaged = ["encoder.name=packaged-minilm"]
    assert seen_corpora(configure(*packaged))
    assert seen_corpora(configure(*packaged, "encoder.from_scratch=true")) == {}
    counts = SplitFacts(rows=9)
    for more, said in (([], 1), (["encoder.from_scratch=true"], 0)):
        config = configure(*packaged, *more, "tasks.sst.data.corpus=quora")
        result = data_warnings(config, {"sst": {"dev": counts}}, {"sst"})
        assert sum("sst: packaged-minilm has seen quora" in line for line in result) == said


@pytest.fixture(scope="module")
def trained(tiny_encoder, course_files, tmp_path_factory):
    """A run under bf16 autocast, quantised from the first step, from a plain run's weights."""
    directory = tmp_path_factory.mktemp("runs")
    common = [f"data_dir={course_files}", f"encoder.name={tiny_encoder}", *SST,
              "tasks.sst.max_length=48", "tasks.sst.pooling=mean", "training.lr=3e-3",
              "training.head_lr=1e-2", "training.epochs=1"]  # fmt: skip
    plain, run = directory / "plain", directory / "bits"
    assert main(PRESET, *common, "training.precision=fp32", f"output_dir={plain}") == 0
    quantised = [
        "encoder.bitlinear={}",
        f"init_from={plain}",
        "training.epochs=12",
        "training.eval_steps=18",
    ]
    assert main(PRESET, *common, *quantised, "training.precision=bf16", f"output_dir={run}") == 0
    return run


def test_the_loss_of_a_quantised_run_falls(trained):
    result = losses(trained)
    assert np.mean(result[-3:]) < 0.7 * np.mean(result[:3])


def test_a_loaded_run_is_quantised_and_scores_as_it_was_scored(trained):
    run = load(trained)
    assert len(bit_layers(run.encoder("sst")[0])) == 8
    scores = run.score_split("sst", run.load_split("sst", "dev"))
    report = report_of(trained)
    golds = run.load_split("sst", "dev").rows.gold
    assert (scores.predictions == golds).mean() == report["tasks"]["sst"]["dev"]["accuracy"]


def test_the_exported_encoder_scores_the_same_in_its_place(trained, tmp_path):
    run = load(trained)
    split = run.load_split("sst", "dev")
    expected = run.score_split("sst", split).scores
    size = save_ternary(run.encoder("sst")[0], tmp_path)
    assert size.file < size.fp32
    run.model.encoder = load_ternary(tmp_path)
    assert np.array_equal(run.score_split("sst", split).scores, expected)


def test_the_export_command_writes_the_same_file(trained, tmp_path, capsys):
    target = tmp_path / "ternary"
    assert main("export", trained, target, "--format", "ternary") == 0
    shown = capsys.readouterr().out
    assert "every hidden state is the same to the last bit" in shown
    (tmp_path / "own").mkdir()
    size = save_ternary(load(trained).encoder("sst")[0], tmp_path / "own")
    assert f"{size.file:,} bytes" in shown
    for name in ("config.json", "ternary.safetensors"):
        assert (target / name).read_bytes() == (tmp_path / "own" / name).read_bytes()
    card = (target / "README.md").read_text()
    assert "load_ternary" in card and f"{size.fp32:,}" in card


@pytest.mark.parametrize("form", ["transformers", "sentence-transformers", "onnx"])
def test_other_formats_name_the_ternary_format(form, trained, tmp_path, capsys):
    if form == "onnx":
        pytest.importorskip("onnxscript", reason="an extra of `export`")
    given = (
        "--format",
        form,
        "--task",
        "sst",
        *(["--encoder-only"] if form == "transformers" else []),
    )
    assert main("export", trained, tmp_path / "model", *given) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: encoder.bitlinear: ") and "--format ternary" in said
    assert not (tmp_path / "model").exists()


def test_a_plain_encoder_has_no_ternary_file(trained, tmp_path, capsys):
    plain, given = trained.with_name("plain"), ("--format", "ternary")
    assert main("export", plain, tmp_path / "ternary", *given) == 2
    assert "train with `encoder.bitlinear: {}`" in capsys.readouterr().err
    assert not (tmp_path / "ternary").exists()


def test_the_examples_of_the_page_run(trained, tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "bitlinear.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "page.yaml"
    file.write_text(f"extends: {ROOT / 'configs' / 'cs224n_minilm.yaml'}\n{block}")
    preset = load_config(ROOT / "configs" / "bitlinear_cs224n_minilm.yaml")
    assert load_config(file).encoder == preset.encoder
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "bitlinear_cs224n_minilm").symlink_to(trained)
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"```bash\npython run_multitask.py (export .*)\n```", text)
    assert main(*command.split()) == 0
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(example, "docs/bitlinear.md", "exec"), {})
    size = (tmp_path / "exports" / "ternary" / "ternary.safetensors").stat().st_size
    assert f"{size:,} bytes" in capsys.readouterr().out
