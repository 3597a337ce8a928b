"""Set-up in four calls: what each reads, what each refuses, what the plan holds."""

import math
import shutil

import pytest
import torch
from pydantic import ValidationError

from multitask.config import load_config
from multitask.training.loss import weighted
from multitask.training.setup import build_model, check, check_launcher, load_data, plan, set_up
from multitask.utils.errors import UserError
from multitask.utils.terminal import silent
from tests.conftest import ROOT

CPU = torch.device("cpu")


@pytest.fixture
def configure(tiny_overrides):
    return lambda *changes: load_config(ROOT / "configs/cs224n.yaml", [*tiny_overrides, *changes])


def test_check_reads_neither_data_nor_encoder(configure):
    check(configure("tasks.sst.data.train=nowhere.csv", "encoder.name=nowhere"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("tasks.sst.head=cosine_regression", "it needs `input: siamese`"),
        ("data_dir=nowhere", "data_dir: no such directory: "),
    ],
)
def test_check_refuses_before_a_file_is_read(configure, change, message):
    with pytest.raises(UserError, match=message):
        check(configure(change))


def test_load_data_needs_the_tokenizer_only(configure, tiny_encoder, tmp_path):
    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    (encoder / "model.safetensors").unlink()
    said: list[str] = []
    data = load_data(configure(f"encoder.name={encoder}"), said.append)
    assert said[:2] == ["reading the data", "tokenizing 174 rows"]  # 3 x (40 + 12 + 6)
    assert said[2].startswith("tokenized in ")
    rows = {"train": 40, "dev": 12, "test": 6}
    for task in ("sst", "qqp", "sts"):
        assert {name: len(split.rows) for name, split in data.splits[task].items()} == rows
        assert {name: part.rows for name, part in data.summary[task].items()} == rows
    assert data.tokenizer.pad_token_id == 0


def test_build_model_draws_the_heads_by_the_seed_and_loads_the_encoder(configure):
    data = load_data(configure())
    models = [build_model(configure(f"seed={seed}"), data, CPU, silent) for seed in (1, 1, 2)]
    one, again, other = (model.state_dict() for model in models)
    assert all(torch.equal(one[name], again[name]) for name in one)
    same = {name for name in one if torch.equal(one[name], other[name])}
    assert {name for name in one if name.startswith("encoder.")} <= same
    assert not any(name.endswith("linear.weight") for name in same if name.startswith("tasks."))


def test_the_plan_holds_stages_metrics_and_weights(configure):
    config = configure("training.holdout=0.2", "tasks.qqp.loss_weight=0.5", "tasks.sst.metric=mcc")
    data = load_data(config)
    made = plan(config, build_model(config, data, CPU, silent), data, CPU)
    assert made.metrics == {"sst": "mcc", "qqp": "accuracy", "sts": "pearson"}
    assert made.loss_weights == {"sst": 1, "qqp": 0.5, "sts": 1}
    assert made.selection_split == "holdout" and made.init_from is None
    assert list(made.loaders) == ["sst", "qqp", "sts"]
    # 32 rows without the holdout, two batches of 16 for each of three tasks, two epochs
    assert made.total_steps == 2 * 3 * 2
    assert made.scorer.batch_size == config.training.eval_batch_size


def test_the_config_stays_as_it_was_loaded(configure):
    config = configure("tasks.sst.data.labels=null")
    before = config.model_dump()
    said = []
    made = set_up(config, CPU, said.append)
    assert config.model_dump() == before
    assert list(made.config.tasks["sst"].data.labels) == list("01234")
    assert said[-1] == f"encoder: {config.encoder.name}"
    with pytest.raises(ValidationError, match="frozen"):
        config.tasks["sst"].batch_size = 2


# --- accelerate ---


def of_file(*changes):
    return load_config(ROOT / "configs" / "cs224n.yaml", list(changes))


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("ACCELERATE_MIXED_PRECISION", "fp16", "training.precision=fp16"),
        ("ACCELERATE_MIXED_PRECISION", "fp8", "--mixed_precision no"),
        ("ACCELERATE_USE_FSDP", "true", "--use_fsdp"),
        ("ACCELERATE_USE_DEEPSPEED", "True", "--use_deepspeed"),
        ("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR", "--dynamo_backend"),
    ],
)
def test_other_settings_of_accelerate_are_refused(variable, value, remedy, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=remedy):
        check_launcher(of_file("training.precision=bf16"))


def test_settings_of_accelerate_that_agree_are_taken(monkeypatch):
    for variable in ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
        monkeypatch.setenv(variable, "false")
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "NO")
    for asked, precision in (("no", "bf16"), ("bf16", "bf16"), ("fp16", "fp16")):
        monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", asked)
        check_launcher(of_file(f"training.precision={precision}"))


# --- the weights of the losses ---


def test_learned_weights_are_kendalls(make):
    model = make("training.loss_weighting=uncertainty")
    value = torch.tensor(3.0, dtype=torch.float64)
    with torch.no_grad():
        model.log_variances["qqp"].fill_(0.7)
    actual = weighted(model, "qqp", value, share=0.25)
    assert actual.item() == pytest.approx(3 / (2 * math.exp(0.7)) + 0.25 * 0.35)
    actual.backward()
    expected = -3 / (2 * math.exp(0.7)) + 0.125
    assert model.log_variances["qqp"].grad.item() == pytest.approx(expected)
    assert weighted(make(), "qqp", value, 1.0) is value


def test_unit_normalisation_divides_by_the_trivial_loss(planned):
    weights = planned("training.loss_normalization=unit", "tasks.qqp.loss_weight=0.5").loss_weights
    assert weights["sst"] == pytest.approx(1 / math.log(5), rel=1e-6)  # five classes alike
    assert weights["qqp"] == pytest.approx(0.5 / math.log(2), rel=1e-6)
    labels = torch.tensor([round(5 * (i % 6) / 5, 1) for i in range(40)], dtype=torch.float64)
    assert weights["sts"] == pytest.approx(1 / labels.var(correction=0).item(), rel=1e-6)
