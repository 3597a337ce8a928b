"""The presets are valid, and those of the course have the paper's settings."""

from pathlib import Path

import pytest

from multitask.config import load_config
from multitask.config.yaml_merge import load_extended
from tests.conftest import ROOT


def is_run(file: Path) -> bool:
    """Not a grid (it has a `base`), a table's layout, or what other files only share."""
    value = load_extended(file).value
    return "base" not in value and isinstance(value.get("tasks"), dict)


CONFIGS = [
    file
    for file in sorted((ROOT / "configs").rglob("*.yaml"))
    if is_run(file) and "parts" not in file.parent.parts  # parts of a config
]


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_every_preset_is_valid_and_its_dump_is_the_same_config(file, tmp_path):
    config = load_config(file)
    dumped = tmp_path / "config.yaml"
    dumped.write_text(config.dump(), encoding="utf-8")
    again = load_config(dumped)
    assert again.resolved() == config.resolved()
    assert again.dump() == config.dump()
    assert "extends" not in config.dump()


def test_course_preset_is_the_papers_setting():
    config = load_config(ROOT / "configs" / "cs224n.yaml")
    training = config.training
    assert [task.pooling.name for task in config.tasks.values()] == ["cls", "mean", "mean"]
    assert list(config.tasks) == ["sst", "qqp", "sts"]
    assert (training.lr, training.betas, training.eps) == (2e-5, [0.9, 0.99], 1e-6)
    assert (training.schedule, training.sampler.name) == ("linear", "round_robin")
    assert training.warmup > 0
    assert {task.batch_size for task in config.tasks.values()} == {16}
    assert config.tasks["sts"].course_file.column == "Predicted_Similiary"


@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_single_task_presets_are_the_papers_baseline(task):
    config = load_config(ROOT / "configs" / f"cs224n_single_{task}.yaml")
    training = config.training
    assert list(config.tasks) == [task]
    assert (training.lr, training.epochs, training.weight_decay) == (1e-5, 10, 0.0)
    assert (training.schedule, training.warmup) == ("constant", 0.0)
    assert (config.tasks[task].batch_size, config.encoder.dropout) == (16, 0.3)
