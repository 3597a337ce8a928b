"""Every mistake in one line, with file, line, key path and the nearest key."""

import re
from pathlib import Path

import pytest

from multitask.config import load_config
from multitask.config.validation_error import SYNONYMS, full_keys
from multitask.utils.errors import UserError
from tests.support.messages import refusal


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("sed", "seed"),
        ("trainin", "training"),
        ("default", "defaults"),
        ("extend", "extends"),
        ("encoder.nmae", "name"),
        ("training.epohcs", "epochs"),
        ("tasks.t.poolin", "pooling"),
        ("tasks.t.data.lable", "label"),
        ("tasks.t.early_stopping.patiance", "patience"),
        ("tasks.pair.course_file.colum", "column"),
    ],
)
def test_unknown_key_names_the_nearest_at_every_level(path, near, base):
    expected = f"{path}: unknown key (did you mean '{near}'?)"
    assert refusal(base, f"{path}=1") == f"command line: {path}=1: {expected}"


def test_unknown_key_like_no_other_lists_the_known(base):
    assert "unknown key (known: patience, min_delta)" in refusal(
        base, "tasks.t.early_stopping.zzzz=1"
    )


def test_unknown_key_explains_the_missing_one(base):
    """`hed:` is reported, not that `head` is missing."""
    base.write_text(base.read_text().replace("    head: classification", "    hed: classification"))
    assert refusal(base) == "base.yaml:8: tasks.t.hed: unknown key (did you mean 'head'?)"


def test_out_of_range_says_what_was_expected(base):
    assert refusal(base, "training.lr=0").endswith("training.lr: should be greater than 0, not 0")
    assert refusal(base, "training.schedule=linnear").endswith(
        "should be 'constant', 'linear', 'cosine' or 'polynomial', not 'linnear'"
    )


PARENT = """\
seed: 5
training:
  lr: 1.0e-5
defaults:
  batch_size: 8
  data:
    id: id
tasks:
  t:
    data: {train: train.csv, dev: dev.csv}
    head: classification
    dropout: 0.2
"""
CHILD = """\
extends: parent.yaml
training:
  epochs: 2
tasks:
  t:
    metric: accuracy
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("parent", "seed: 5", "seed: -5", "parent.yaml:1: seed: "),
        ("parent", "lr: 1.0e-5", "lr: 0", "parent.yaml:3: training.lr: "),
        ("parent", "batch_size: 8", "batch_size: 0", "parent.yaml:5: tasks.t.batch_size: "),
        ("parent", "  id: id", "  id: 5", "parent.yaml:7: tasks.t.data.id: "),
        ("parent", "batch_size", "bacth_size", "parent.yaml:5: tasks.t.bacth_size: unknown key"),
        ("parent", "dropout: 0.2", "dropout: 2", "parent.yaml:12: tasks.t.dropout: "),
        ("parent", "classification", "clasification", "parent.yaml:11: tasks.t.head: "),
        ("child", "epochs: 2", "epochs: 0", "child.yaml:3: training.epochs: "),
        ("child", "metric: accuracy", "metric: 5", "child.yaml:6: tasks.t.metric: "),
        ("child", "metric: accuracy", "head: x", "child.yaml:6: tasks.t.head: "),
        ("child", "metric: accuracy", "data: {label_range: [1]}", "child.yaml:6: tasks.t.data.lab"),
        # the key that is missing: the block that lacks it
        ("parent", "    head: classification\n", "", "parent.yaml:9: tasks.t: the key 'head'"),
        ("parent", "tasks:", "task:", "parent.yaml:8: task: unknown key"),
    ],
)
def test_mistake_names_the_file_and_line_that_hold_the_value(
    file, old, new, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    texts = {"parent": PARENT, "child": CHILD}
    assert old in texts[file]
    texts[file] = texts[file].replace(old, new)
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text)
    assert refusal("child.yaml").startswith(expected)


def test_mistake_on_the_command_line_names_it_even_through_defaults(base):
    result = refusal(base, "defaults.batch_size=0", "seed=3")
    assert result.startswith("command line: defaults.batch_size=0: tasks.t.batch_size: ")


def test_a_key_at_the_wrong_place_is_answered_with_the_full_key():
    for override, full in (
        ("lr=1e-5", "training.lr"),
        ("batch_size=8", "defaults.batch_size"),
        ("tasks.sst.lr=1e-5", "training.lr"),
        ("learning_rate=1e-5", "training.lr"),
        ("training.learning_rate=1e-5", "training.lr"),
        ("tasks.sst.max_seq_length=64", "tasks.sst.max_length"),
        ("max_seq_length=64", "defaults.max_length"),
        ("use_gpu=true", "device"),
        ("model=bert", "encoder.name"),
    ):
        with pytest.raises(UserError, match=rf"unknown key \(did you mean {full}"):
            load_config("configs/demo.yaml", [override])


# --- the names that other trainers have for our keys: each leads to a key that there is

SKELETON = {  # the flags of the course's skeleton
    "fine-tune-mode": "encoder.freeze",
    "option": "encoder.freeze",
    "use_gpu": "device",
    "hidden_dropout_prob": "encoder.dropout",
    "filepath": "output_dir",
    "sst_train": "tasks.sst.data.train",
    "para_dev": "tasks.qqp.data.dev",
    "sts_test": "tasks.sts.data.test",
}
OTHERS = {
    "learning_rate": "training.lr",
    "num_train_epochs": "training.epochs",
    "max_seq_length": "defaults.max_length",
    "model_name_or_path": "encoder.name",
    "warmup_ratio": "training.warmup",
    "per_device_train_batch_size": "defaults.batch_size",
    "Learning-Rate": "training.lr",
}


@pytest.mark.parametrize("key", SYNONYMS)
def test_the_key_exists_and_is_called_so_by_nobody_here(key):
    name = re.split(r"[= ]", key)[0]
    assert name in full_keys(name.rpartition(".")[2])
    for word in SYNONYMS[key].split():
        assert key in full_keys(word), "it is the name of a key: leave it out"


@pytest.mark.parametrize(("word", "key"), [*SKELETON.items(), *OTHERS.items()])
def test_other_names(word, key):
    assert full_keys(word)[0].partition("=")[0] == key


def test_no_name_of_a_key_is_unknown():
    assert full_keys("wheels") == []
