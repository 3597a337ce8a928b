"""TensorBoard's own reader finds in the event files what metrics.jsonl says, each step once."""

import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import run_multitask
from tests.conftest import ROOT
from tests.support.tracked_runs import Curves, check_same, command, expected, kill_and_resume

STAGES = "stages=[{epochs: 1, combine: joint}, {tasks: [sts], epochs: 1}]"
SWITCH = "training.tensorboard=true"


def reader_of(run_dir: Path) -> EventAccumulator:
    reader = EventAccumulator(str(run_dir / "tensorboard"), size_guidance={"scalars": 0})
    reader.Reload()
    return reader


def recorded(run_dir: Path) -> Curves:
    reader = reader_of(run_dir)
    tags = reader.Tags()["scalars"]
    return {tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in tags}


def test_joint_steps_and_stages_are_recorded(tiny_overrides, tmp_path):
    arguments = [STAGES, "training.holdout=0.2", SWITCH]
    assert run_multitask.main(command(tiny_overrides, *arguments)) == 0
    result = recorded(tmp_path / "run")
    # one joint step gives each task its loss; the second stage trains sts alone
    first = len(result["train/loss/sst"])
    assert [step for step, _ in result["train/loss/sst"]] == list(range(1, first + 1))
    assert len(result["train/loss/sts"]) > first
    # every evaluation covers all tasks, whatever the stage trains
    assert len(result["holdout/accuracy/sst"]) == len(result["holdout/joint"]) == 2
    check_same(result, expected(tmp_path / "run"))
    (text,) = reader_of(tmp_path / "run").Tensors("config/text_summary")
    assert "combine: joint" in text.tensor_proto.string_val[0].decode()


@pytest.mark.parametrize("names", [(SWITCH,), (SWITCH, "training.trackers=[tensorboard]")])
def test_the_switch_means_the_same_as_the_name(names, tiny_overrides, tmp_path):
    arguments = command(tiny_overrides, "training.max_steps=2", *names)
    assert run_multitask.main(arguments) == 0
    check_same(recorded(tmp_path / "run"), expected(tmp_path / "run"))
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 1


@pytest.mark.slow
def test_a_killed_run_goes_on_without_a_doubled_step(tiny_overrides, tmp_path):
    kill_and_resume(tiny_overrides, SWITCH)
    check_same(recorded(tmp_path / "run"), expected(tmp_path / "run"))


@pytest.mark.slow
def test_an_overwritten_run_leaves_no_old_events(tiny_overrides, tmp_path):
    arguments = command(tiny_overrides, SWITCH)
    assert run_multitask.main([*arguments, "training.max_steps=6"]) == 0
    assert run_multitask.main([*arguments, "training.max_steps=3", "--overwrite"]) == 0
    check_same(recorded(tmp_path / "run"), expected(tmp_path / "run"))


@pytest.mark.slow
def test_a_run_without_the_switch_neither_writes_nor_imports_it(tiny_overrides, tmp_path):
    script = (
        "import sys, run_multitask\n"
        "assert run_multitask.main(sys.argv[1:]) == 0\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'tensorboard']\n"
    )
    arguments = ["configs/cs224n.yaml", *tiny_overrides, "training.max_steps=2"]
    subprocess.run([sys.executable, "-c", script, *arguments], cwd=ROOT, check=True)
    assert not (tmp_path / "run" / "tensorboard").exists()
