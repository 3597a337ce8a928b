"""`check` prints the plan and writes nothing."""

from pathlib import Path

import pytest

import multitask
from tests.support.commands import main


def test_check_prints_the_plan_and_writes_nothing(tiny_overrides, capsys):
    above = ["tasks.sts.projection=mlp", "tasks.sts.adapter={name: pal, size: 4, heads: 2}"]
    assert main("check", "configs/cs224n.yaml", *tiny_overrides, *above) == 0
    plan = capsys.readouterr().out
    for words in (
        "sst   train  40",
        "negative 8, somewhat negative 8",
        "numbers from 0 to 5",
        "encoder: ",
        "tasks.sst: 165",  # 32 * 5 + 5
        "tasks.qqp: 33",
        "sts   mean     mlp         cosine_regression   pal (size 4, heads 2)  -",
        "steps: 18 planned",
        "2 of them warm-up",
        "sampling share  loss weight",
        "33.3%",
        "sst (label ",
        "[CLS]",
        "    u ",
        "    v ",
        "sst: transformers --encoder-only, sentence-transformers, onnx (transformers: train with "
        "`tasks.sst.projection=tanh`)",
        "qqp: transformers --encoder-only, sentence-transformers, onnx\n",
        "sts: onnx",  # the adapter is part of the encoder's layers
        "one batch of each task, forward and backward",
        "qqp: 16 rows, loss ",
    ):
        assert words in plan, words
    output = next(o for o in tiny_overrides if o.startswith("output_dir=")).partition("=")[2]
    assert not Path(output).exists()


def test_python_gets_the_plan_as_text(tiny_overrides, capsys):
    assert main("check", "configs/cs224n.yaml", *tiny_overrides) == 0
    printed = capsys.readouterr().out
    plan = multitask.check("configs/cs224n.yaml", tiny_overrides)
    assert printed.endswith(f"{plan}\n") and "steps: 18 planned" in plan


@pytest.mark.parametrize(
    ("pooling", "projection", "hint"),
    [
        ("cls", "tanh", ""),
        ("mean", "tanh", "`tasks.sst.pooling=cls`"),
        ("mean", "null", "`tasks.sst.pooling=cls` and `tasks.sst.projection=tanh`"),
    ],
)
def test_check_says_what_the_transformers_export_needs(
    pooling, projection, hint, tiny_overrides, capsys
):
    above = [f"tasks.sst.pooling={pooling}", f"tasks.sst.projection={projection}"]
    assert main("check", "configs/cs224n.yaml", "--no-dry-run", *tiny_overrides, *above) == 0
    plan = capsys.readouterr().out
    assert "forward and backward" not in plan
    (line,) = (line for line in plan.splitlines() if "  sst: tr" in line)
    assert line.partition(" (")[2] == (f"transformers: train with {hint})" if hint else "")
    assert ("--encoder-only" in line) == bool(hint)


def test_check_shows_both_segments_of_a_cross_encoded_pair(tiny_overrides, capsys):
    cross = ["tasks.qqp.input=cross", "tasks.qqp.pooling=cls", "tasks.qqp.head=binary"]
    assert main("check", "configs/cs224n.yaml", *tiny_overrides, *cross) == 0
    assert "(segments: 2)" in capsys.readouterr().out


def test_hub_preset_needs_no_data_dir(capsys):
    """The hub is not reachable in tests: what fails is the data set, not `data_dir`."""
    assert main("check", "configs/cs224n_hub.yaml") == 2
    assert "cannot load the data set 'SetFit/sst5', split 'train'" in capsys.readouterr().err


@pytest.mark.slow
def test_cfimdb_preset_on_the_real_files(course_data, tiny_encoder, tmp_path, capsys):
    words = [f"data_dir={course_data}", f"encoder.name={tiny_encoder}", f"output_dir={tmp_path}"]
    words += [f"tasks.{task}.max_length=48" for task in ("sst", "qqp", "sts", "cfimdb")]
    assert main("check", "configs/cs224n_cfimdb.yaml", *words) == 0
    plan = capsys.readouterr().out
    assert "cfimdb  train  1707" in plan and "cfimdb  dev    245" in plan
    assert "of train inputs truncated at 48 tokens" in plan
