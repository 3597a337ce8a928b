"""TensorBoard's own reader finds in the event files what metrics.jsonl says, each step once."""

import importlib.util
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import run_multitask
from multitask.training.metric_log import MetricLog
from multitask.training.tensorboard import TensorBoard
from multitask.utils import distributed
from tests.conftest import ROOT
from tests.support.kill import kill_inside
from tests.support.run_files import events

STAGES = "stages=[{epochs: 1, combine: joint}, {tasks: [sts], epochs: 1}]"


def command(overrides: list[str], *more: str) -> list[str]:
    # 'configs/...': kill_inside starts in the project's root
    return ["configs/cs224n.yaml", *overrides, "training.tensorboard=true", *more]


def expected(run_dir: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of every tag, from metrics.jsonl."""
    actual = defaultdict(list)
    for line in events(run_dir):
        if line["event"] == "step":
            for key in ("loss", "lr", "head_lr", "grad_norm"):
                actual[f"train/{key}/{line['task']}"].append((line["step"], line[key]))
        if line["event"] == "eval":
            actual[f"{line['split']}/joint"].append((line["step"], line["joint"]))
            for task, values in line["tasks"].items():
                for metric, value in values.items():
                    actual[f"{line['split']}/{metric}/{task}"].append((line["step"], value))
    defined = {tag: [(s, v) for s, v in pairs if v is not None] for tag, pairs in actual.items()}
    return {tag: pairs for tag, pairs in defined.items() if pairs}


def recorded(run_dir: Path) -> dict[str, list[tuple[int, float]]]:
    """The same as TensorBoard reads it."""
    reader = EventAccumulator(str(run_dir / "tensorboard"), size_guidance={"scalars": 0})
    reader.Reload()
    tags = reader.Tags()["scalars"]
    return {tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in tags}


def check_same(run_dir: Path) -> None:
    actual, wanted = recorded(run_dir), expected(run_dir)
    assert set(actual) == set(wanted)
    for tag, pairs in wanted.items():
        assert [step for step, _ in actual[tag]] == [step for step, _ in pairs], tag
        values = [value for _, value in pairs]
        assert [value for _, value in actual[tag]] == pytest.approx(values, rel=1e-6), tag


def test_joint_steps_and_stages_are_recorded(tiny_overrides, tmp_path):
    assert run_multitask.main(command(tiny_overrides, STAGES, "training.holdout=0.2")) == 0
    result = recorded(tmp_path / "run")
    # one joint step gives each task its loss; the second stage trains sts alone
    first = len(result["train/loss/sst"])
    assert [step for step, _ in result["train/loss/sst"]] == list(range(1, first + 1))
    assert len(result["train/loss/sts"]) > first
    # every evaluation covers all tasks, whatever the stage trains
    assert len(result["holdout/accuracy/sst"]) == len(result["holdout/joint"]) == 2
    check_same(tmp_path / "run")


@pytest.mark.slow
def test_a_killed_run_goes_on_without_a_doubled_step(tiny_overrides, tmp_path):
    settings = ("training.epochs=3", "training.checkpoint_steps=4")
    run_dir = tmp_path / "run"
    inside_an_evaluation = ("multitask.inference.scoring:Scorer.score", "before", 5)
    kill_inside(*inside_an_evaluation, command(tiny_overrides, *settings))
    assert list((run_dir / "tensorboard").iterdir())  # a file that must not count any more
    assert run_multitask.main(command(tiny_overrides, *settings, "--resume")) == 0
    check_same(run_dir)


@pytest.mark.slow
def test_an_overwritten_run_leaves_no_old_events(tiny_overrides, tmp_path):
    assert run_multitask.main(command(tiny_overrides, "training.max_steps=6")) == 0
    assert run_multitask.main(command(tiny_overrides, "training.max_steps=3", "--overwrite")) == 0
    check_same(tmp_path / "run")


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


def test_only_the_first_process_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    log = MetricLog(tmp_path / "metrics.jsonl")
    callback = TensorBoard(log.file, tmp_path / "tensorboard")
    callback.on_start(None)
    log.write("eval", step=1, split="dev", tasks={}, joint=0.5)
    callback.on_evaluation(None, None)
    callback.on_end(None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["check"], []])
def test_without_the_package_one_line_says_how_to_install_it(
    command, tiny_overrides, tmp_path, monkeypatch, capsys
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tensorboard" else find(name)
    )
    arguments = ["configs/cs224n.yaml", *tiny_overrides, "training.tensorboard=true"]
    assert run_multitask.main([*command, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "training.tensorboard" in line and "[tensorboard]'" in line
    assert not (tmp_path / "run").exists()
