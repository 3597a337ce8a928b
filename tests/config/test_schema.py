"""The types and ranges of the keys, at the command line."""

import pytest

from multitask.config import load_config
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.messages import refusal

TYPES = [
    ("seed", "whole number", ["1.5", "1.0", "true", "'1'", "null", "[1]"]),
    ("training.lr", "number", ["true", "no", "'1'", "null"]),
    ("training.frozen_baseline", "true or false", ["no", "1", "null"]),
    ("output_dir", "text", ["5", "null", "[x]"]),
    ("training.betas", "list", ["0.9", "{a: 1}"]),
    ("training.betas.1", "number", ["[0.9, x]"]),
    ("encoder", "keys and values", ["null", "[]"]),
    ("tasks", "keys and values", ["5", "null", "[t]"]),
    ("tasks.t", "keys and values", ["5", "[]"]),
    ("tasks.t.data", "keys and values", ["x.csv", "null"]),
    ("tasks.t.data.labels", "keys and values", ["5"]),
    ("tasks.t.data.unlabelled", "list", ["'-1'"]),
]


@pytest.mark.parametrize(
    ("path", "words", "value"), [(path, words, v) for path, words, vs in TYPES for v in vs]
)
def test_wrong_type(path, words, value, base):
    key = path.removesuffix(".1")
    result = refusal(base, f"{key}={value}")
    assert result.startswith(f"command line: {key}={value}: {path}: expected ")
    assert f"expected {words}" in result or f"expected a {words}" in result


RANGES = [
    ("seed", ["-1", "99999999999999999999"], ["0", "5"]),
    ("training.epochs", ["0"], ["1"]),
    ("training.epoch", ["0", "[1]"], ["5", "longest"]),
    ("encoder.freeze", ["5", "yes"], ["true", "[layer_1]"]),
    ("training.max_steps", ["0"], ["1", "null"]),
    ("training.lr", ["0", "-1e-5", ".inf", ".nan"], ["2e-5", "1"]),
    ("training.betas", ["[0.9]", "[0.9, 1]", "[-0.1, 0.9]", "[.nan, 0.9]"], ["[0, 0.999]"]),
    ("training.warmup", ["-0.1", "1"], ["0", "0.99"]),
    ("training.clip_norm", ["0"], ["0.5", "null"]),
    ("training.keep_checkpoints", ["1"], ["2"]),
    ("training.holdout", ["1.0"], ["0", "0.1"]),
    ("training.schedule", ["linnear", "5"], ["cosine", "polynomial", "constant", "linear"]),
    ("training.precision", ["fp8"], ["fp16"]),
    ("encoder.dropout", ["1"], ["0", "null"]),
    ("tasks.t.max_length", ["3"], ["4"]),
    ("tasks.t.batch_size", ["0"], ["1"]),
    ("tasks.t.accumulation", ["0"], ["2"]),
    ("tasks.t.loss_weight", ["0"], ["0.1"]),
    ("tasks.t.max_rows", ["0"], ["1", "null"]),
    ("tasks.t.early_stopping.patience", ["0"], ["1", "null"]),
    ("tasks.t.early_stopping.min_delta", ["-1"], ["0"]),
    ("tasks.t.input", ["siamse"], ["single"]),
    ("tasks.t.data.format", ["excel"], ["tsv"]),
    ("tasks.t.data.labels", ["[a]", "{0: a, 1: a}", "{0: , 1: b}", "{0: [a], 1: b}"], ["[0, 1]"]),
    ("tasks.t.data.choices", ["[a]", "[1, 2]", "5"], []),
    ("tasks.t.data.label_range", ["[5]", "[5, 0]", "[0, 0]", "[0, .nan]"], ["[0, 5]"]),
]


@pytest.mark.parametrize(
    ("path", "value"), [(path, value) for path, bad, _ in RANGES for value in bad]
)
def test_out_of_range(path, value, base):
    assert refusal(base, f"{path}={value}").startswith(f"command line: {path}={value}: {path}")


def test_inside_the_range(base):
    for path, _, good in RANGES:
        for value in good:
            load_config(base, [f"{path}={value}"])


@pytest.mark.parametrize(
    "override",
    [
        "training.eval_batch_size=10000000000000000000",
        "encoder.dropout=0.999999",
        "training.lr=1e38",
        "training.eps=1e-320",
        "tasks.t.data.label_range=[0, 1e300]",
        "training.epoch=10000001",
        'output_dir="a\\0b"',
        'tasks.t.data.train="a\\0b"',
    ],
)
def test_numbers_and_paths_that_no_machine_has_are_refused(override, base):
    assert f": {override.partition('=')[0]}: " in refusal(base, override)


def test_a_config_has_only_so_many_tasks(tmp_path):
    file = tmp_path / "many.yaml"
    task = "{data: {train: x, dev: x}, head: classification}"
    file.write_text("tasks:\n" + "".join(f"  t{i}: {task}\n" for i in range(501)))
    with pytest.raises(UserError, match="tasks: at most 500 are possible"):
        load_config(file)
    with pytest.raises(UserError, match="stages: at most 100 are possible"):
        load_config(ROOT / "configs" / "cs224n.yaml", [f"stages={[{'epochs': 1}] * 101}"])
