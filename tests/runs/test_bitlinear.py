"""Runs with a quantised encoder: config, start, gradual training, kill and resume, export."""

import json
import re

import numpy as np
import pytest
import torch

import run_multitask
from multitask import load
from multitask.config import load_config
from multitask.config.config import seen_corpora
from multitask.data.summary import data_warnings
from multitask.models.encoders.bitlinear import bit_layers
from multitask.models.encoders.ternary_file import load_ternary, save_ternary
from multitask.models.pretrained import load_head_weights, load_pretrained
from multitask.store.saved import SplitFacts
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.kill import kill_inside

PRESET = ROOT / "configs" / "cs224n.yaml"
GRADUAL = "encoder.bitlinear={gradual: 0.5}"
SST = ["tasks.qqp=null", "tasks.sts=null", "training.frozen_baseline=false"]


def main(*arguments: object) -> int:
    return run_multitask.main([str(argument) for argument in arguments])


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
    with pytest.raises(UserError, match=r"encoder\.bitlinear\.layers: none of the 2 layers"):
        load_pretrained(configure("encoder.bitlinear={layers: inner}"))
    with pytest.raises(UserError, match=r"encoder\.bitlinear\.gradual"):
        configure("encoder.bitlinear={gradual: 1.5}")


@pytest.mark.parametrize("option", ["bitlinear={}", "from_scratch=true"])
def test_only_our_own_encoder_has_it(configure, option):
    config = configure("encoder.implementation=transformers", f"encoder.{option}")
    name = option.partition("=")[0]
    with pytest.raises(UserError, match=rf"encoder\.{name}: our own encoder has it"):
        load_pretrained(config)


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


def test_from_scratch_and_init_from_exclude_each_other(configure):
    with pytest.raises(UserError, match=r"encoder\.from_scratch: `init_from` brings the weights"):
        configure("encoder.from_scratch=true", "init_from=runs/x")


@pytest.mark.slow
def test_killed_gradual_run_resumes_to_the_same_numbers(tiny_overrides, tmp_path):
    """lambda comes from the step: killed half way up, every loss is the same to the last bit."""
    settings = [PRESET, *tiny_overrides, *SST, "training.epochs=4", "training.checkpoint_steps=2"]
    unbroken, killed, plain = (tmp_path / name for name in ("whole", "killed", "plain"))
    assert main(*settings, GRADUAL, f"output_dir={unbroken}") == 0
    command = [*map(str, settings), GRADUAL, f"output_dir={killed}"]
    kill_inside("multitask.training.trainer:train_step", "after", 4, command)
    assert not (killed / "report.json").exists()
    assert main(*command, "--resume") == 0
    assert losses(killed) == losses(unbroken) and len(losses(unbroken)) == 12
    reports = [json.loads((run / "report.json").read_text()) for run in (unbroken, killed)]
    assert reports[0]["tasks"] == reports[1]["tasks"]
    assert main(*settings, f"output_dir={plain}") == 0
    assert losses(plain)[0] == losses(unbroken)[0]  # lambda is 0
    assert losses(plain)[1] != losses(unbroken)[1]


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
    report = json.loads((trained / "report.json").read_text())
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
