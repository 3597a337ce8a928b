"""The loop under trouble: Ctrl-C, NaN, full disk, damaged checkpoints; stopped tasks."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import run_multitask
from multitask.config import load_config
from multitask.store.run_directory import RunDirectory
from multitask.training import trainer
from multitask.training.checkpoints import load_checkpoint
from multitask.training.loss import Objective
from multitask.training.setup import set_up
from multitask.training.trainer import Trainer
from tests.conftest import ROOT
from tests.support.run_files import events

EPOCH = 9  # steps: 3 tasks, 40 rows, batches of 16


def command(overrides: list[str], *more: str) -> list[str]:
    extra = ["training.epochs=3", "training.frozen_baseline=false", "training.checkpoint_steps=4"]
    return ["configs/cs224n.yaml", *overrides, *extra, *more]


def run_dir(overrides: list[str]) -> Path:
    return Path(next(o for o in overrides if o.startswith("output_dir=")).partition("=")[2])


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Send this process Ctrl-C inside the given training step."""
    original, calls = trainer.train_step, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*args, **kwargs)

    monkeypatch.setattr(trainer, "train_step", interrupted)


@pytest.fixture
def reference(tiny_overrides: list[str], tmp_path: Path) -> list[dict]:
    """Events of the same run without trouble."""
    assert run_multitask.main(command(tiny_overrides, f"output_dir={tmp_path / 'ref'}")) == 0
    return events(tmp_path / "ref")


def test_ctrl_c_saves_and_resumes(tiny_overrides, reference, monkeypatch, capsys):
    interrupt_at(monkeypatch, 14)
    assert run_multitask.main(command(tiny_overrides)) == 75
    line = error_line(capsys)
    assert "interrupted" in line and "--resume" in line
    directory = run_dir(tiny_overrides)
    assert RunDirectory(directory).saved_checkpoints()[-1].name == "step-00000014"
    assert run_multitask.main(command(tiny_overrides, "--resume")) == 0
    assert events(directory) == reference


def test_ctrl_c_during_an_evaluation(tiny_overrides, reference, monkeypatch, capsys):
    original = trainer.Trainer.evaluate
    monkeypatch.setattr(
        trainer.Trainer,
        "evaluate",
        lambda self: (os.kill(os.getpid(), signal.SIGINT), original(self)),
    )
    assert run_multitask.main(command(tiny_overrides)) == 75
    assert "interrupted" in error_line(capsys)
    directory = run_dir(tiny_overrides)
    assert [event["step"] for event in events(directory)] == list(range(EPOCH + 1))
    monkeypatch.undo()
    assert run_multitask.main(command(tiny_overrides, "--resume")) == 0
    assert events(directory) == reference


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", truncate),
        pytest.param("rng.safetensors", Path.unlink, marks=pytest.mark.slow),
        pytest.param("state.json", truncate, marks=pytest.mark.slow),
    ],
)
def test_damaged_checkpoint_falls_back(
    name, damage, tiny_overrides, reference, monkeypatch, capsys
):
    interrupt_at(monkeypatch, 14)
    assert run_multitask.main(command(tiny_overrides)) == 75
    monkeypatch.undo()
    directory = run_dir(tiny_overrides)
    damage(RunDirectory(directory).saved_checkpoints()[-1] / name)
    capsys.readouterr()
    assert run_multitask.main(command(tiny_overrides, "--resume")) == 0
    said = capsys.readouterr().out
    assert "falling back" in said and "step-00000014" in said
    assert events(directory) == reference


def test_every_checkpoint_damaged(tiny_overrides, monkeypatch, capsys):
    interrupt_at(monkeypatch, 14)
    assert run_multitask.main(command(tiny_overrides)) == 75
    directory = run_dir(tiny_overrides)
    for path in RunDirectory(directory).saved_checkpoints():
        truncate(path / "model.safetensors")
    capsys.readouterr()
    log = (directory / "metrics.jsonl").read_bytes()
    for _ in range(2):  # the second try must not start over either
        assert run_multitask.main(command(tiny_overrides, "--resume")) == 2
        assert "--overwrite" in error_line(capsys)
        assert (directory / "metrics.jsonl").read_bytes() == log


def test_resume_refuses_changed_data(tiny_overrides, course_files, tmp_path, monkeypatch, capsys):
    data = tmp_path / "data"
    shutil.copytree(course_files, data)
    # dev selects nothing here, but its scores stand beside baselines that were computed before
    here, apart = f"data_dir={data}", "training.holdout=0.2"
    tiny_overrides = [*tiny_overrides, apart]
    interrupt_at(monkeypatch, 7)
    assert run_multitask.main(command(tiny_overrides, here)) == 75
    monkeypatch.undo()
    capsys.readouterr()
    for name in ("ids-sst-dev.csv", "ids-sst-train.csv"):
        file = data / name
        content = file.read_text()
        lines = content.splitlines(keepends=True)
        file.write_text("".join(lines[:-3]))
        assert run_multitask.main(command(tiny_overrides, here, "--resume")) == 2
        assert "the data of sst are not those" in error_line(capsys)
        if name == "ids-sst-dev.csv":
            file.write_text(content)
    file.write_text("".join(lines[:-3]))
    assert run_multitask.main(command(tiny_overrides, here, "--resume")) == 2
    assert "the data of sst are not those" in error_line(capsys)
    saved = (run_dir(tiny_overrides) / "config.yaml").read_text()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(data, elsewhere)
    refused = command(tiny_overrides, f"data_dir={elsewhere}", "--resume")
    assert run_multitask.main(refused) == 2
    assert (run_dir(tiny_overrides) / "config.yaml").read_text() == saved
    capsys.readouterr()
    moved = tmp_path / "moved"  # the same data in another place are fine
    file.write_text("".join(lines))
    data.rename(moved)
    assert run_multitask.main(command(tiny_overrides, f"data_dir={moved}", "--resume")) == 0


def test_scores_that_are_not_finite_stop_the_run(tiny_overrides, monkeypatch, capsys):
    original = trainer.train_step

    def spoil(model, *args, **more):
        result = original(model, *args, **more)
        with torch.no_grad():
            model.tasks["qqp"].head.linear.bias.fill_(math.nan)
        return result

    monkeypatch.setattr(trainer, "train_step", spoil)
    assert run_multitask.main(command(tiny_overrides, "training.eval_steps=1")) == 2
    line = error_line(capsys)
    assert "task qqp" in line and "not finite" in line and "no checkpoint yet" in line
    assert (last := events(run_dir(tiny_overrides))[-1])["event"] == "diverged"
    assert last["step"] == 1 and "task qqp" in last["reason"]
    monkeypatch.setattr(trainer, "train_step", original)  # a resumed run has no such line
    assert run_multitask.main(command(tiny_overrides, "training.eval_steps=1", "--resume")) == 0
    assert "diverged" not in {event["event"] for event in events(run_dir(tiny_overrides))}


def test_resume_with_another_config_names_the_keys(tiny_overrides, monkeypatch, capsys):
    interrupt_at(monkeypatch, 5)
    assert run_multitask.main(command(tiny_overrides)) == 75
    capsys.readouterr()
    saved = (run_dir(tiny_overrides) / "config.yaml").read_text()
    changed = command(tiny_overrides, "--resume", "training.lr=0.5", "tasks.sst.pooling=max")
    assert run_multitask.main(changed) == 2
    line = error_line(capsys)
    assert "training.lr (2e-05 -> 0.5)" in line
    assert "tasks.sst.pooling.name (cls -> max)" in line
    assert (run_dir(tiny_overrides) / "config.yaml").read_text() == saved


def test_nan_loss_stops_with_the_last_checkpoint_intact(tiny_overrides, monkeypatch, capsys):
    original, calls = Objective.losses, []

    def poisoned(*args, **more):
        calls.append(1)
        factor = math.nan if len(calls) == 11 else 1.0
        result = original(*args, **more)
        return {task: one._replace(loss=one.loss * factor) for task, one in result.items()}

    monkeypatch.setattr(Objective, "losses", poisoned)
    assert run_multitask.main(command(tiny_overrides)) == 2
    line = error_line(capsys)
    assert "step 11, task qqp" in line and "nan" in line and "step-00000009" in line
    directory = run_dir(tiny_overrides)
    run = RunDirectory(directory)
    states = load_checkpoint(run, run.saved_checkpoints()[-1])
    assert states["progress"]["step"] == 9
    assert all(tensor.isfinite().all() for tensor in states["model"].values())


FULL_DISK = """
import resource, sys
from multitask.training import trainer
original, calls = trainer.train_step, []
def limited(*args, **kwargs):
    calls.append(1)
    if len(calls) == 14:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
    return original(*args, **kwargs)
trainer.train_step = limited
import run_multitask
sys.exit(run_multitask.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_full_disk_is_one_line_and_harms_nothing(tiny_overrides, reference):
    """No file may grow beyond 8 kB from step 14 on: the next checkpoint cannot be written."""
    result = subprocess.run(
        [sys.executable, "-c", FULL_DISK, *command(tiny_overrides)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "cannot be written" in result.stderr and "--resume" in result.stderr
    assert run_multitask.main(command(tiny_overrides, "--resume")) == 0
    assert events(run_dir(tiny_overrides)) == reference


def test_stopped_task_is_skipped_counted_and_does_not_move(tiny_overrides, monkeypatch):
    """Two tasks of three stop after the second evaluation; the schedule goes on as planned."""
    config = load_config(
        "configs/cs224n.yaml",
        [
            *tiny_overrides,
            "training.epochs=4",
            "training.weight_decay=0.5",
            "tasks.sst.early_stopping.patience=1",
            "tasks.qqp.early_stopping.patience=1",
        ],
    )
    prepared = set_up(config, torch.device("cpu"), lambda line: None)
    Path(config.output_dir).mkdir()
    loop = Trainer(prepared, Path(config.output_dir), lambda line: None)
    original = loop.measures.evaluate

    def constant(*given):
        result = original(*given)
        result["sst"]["accuracy"], result["qqp"]["accuracy"] = 0.5, math.nan
        return result

    loop.measures.evaluate = constant
    at_stop = {}
    stopping = loop.selection.early_stopping
    update = stopping.update

    def watched(*given):
        now = update(*given)
        for task in now:
            state = prepared.model.tasks[task].state_dict()
            at_stop[task] = {name: value.clone() for name, value in state.items()}
        return now

    monkeypatch.setattr(stopping, "update", watched)
    loop.run()
    # NaN never improves: qqp is out of patience at the first evaluation, sst at the second
    assert stopping.stopped == {"qqp": EPOCH, "sst": 2 * EPOCH}
    assert loop.progress.skipped == {"qqp": 9, "sst": 6}
    assert loop.progress.trained == {"qqp": 3, "sst": 6, "sts": 12}
    assert loop.stages.scheduler.last_epoch == loop.stages.total_steps == 4 * EPOCH
    for task, state in at_stop.items():
        for name, value in prepared.model.tasks[task].state_dict().items():
            assert torch.equal(value, state[name]), (task, name)
    log = events(Path(config.output_dir))
    assert [e["task"] for e in log if e["event"] == "stop"] == ["qqp", "sst"]
    last_step = [e for e in log if e["event"] == "step"][-1]
    warmup = round(0.1 * loop.stages.total_steps)
    left = loop.stages.total_steps - (last_step["step"] - 1)
    assert last_step["lr"] == pytest.approx(2e-5 * left / (loop.stages.total_steps - warmup))
    last = [e for e in log if e["event"] == "eval"][-1]
    assert set(last["tasks"]) == {"sst", "qqp", "sts"}  # stopped tasks are still evaluated


def test_all_tasks_stopped_ends_the_run(tiny_overrides):
    patience = [f"tasks.{task}.early_stopping.patience=1" for task in ("sst", "qqp", "sts")]
    delta = [f"tasks.{task}.early_stopping.min_delta=9" for task in ("sst", "qqp", "sts")]
    assert run_multitask.main(command(tiny_overrides, *patience, *delta)) == 0
    report = json.loads((run_dir(tiny_overrides) / "report.json").read_text())
    assert report["steps"] == {"planned": 3 * EPOCH, "done": 2 * EPOCH}


def test_same_seed_same_numbers_and_another_seed_others(tiny_overrides, tmp_path):
    logs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        directory = tmp_path / name
        more = ["training.max_steps=9", f"seed={seed}", f"output_dir={directory}"]
        assert run_multitask.main(command(tiny_overrides, *more)) == 0
        logs.append(events(directory))
    assert logs[0] == logs[1] != logs[2]


def test_per_task_selection_uses_each_tasks_own_step(tiny_overrides):
    select = ["training.select=per_task", "training.eval_steps=3", "training.lr=0.01"]
    assert run_multitask.main(command(tiny_overrides, *select)) == 0
    directory = run_dir(tiny_overrides)
    report = json.loads((directory / "report.json").read_text())
    evaluations = [event for event in events(directory) if event["event"] == "eval"]
    for task, entry in report["tasks"].items():
        metric = entry["metric"]
        values = {e["step"]: e["tasks"][task][metric] for e in evaluations}
        best = max(value for value in values.values() if value is not None)
        assert values[entry["selected_step"]] == best
        assert entry["dev"][metric] == pytest.approx(best, abs=1e-6)


def test_checkpoints_are_pruned_and_disk_use_is_bounded(tiny_overrides):
    assert run_multitask.main(command(tiny_overrides, "training.eval_steps=3")) == 0
    directory = run_dir(tiny_overrides)
    assert len(RunDirectory(directory).saved_checkpoints()) == 1
    best = json.loads((directory / "best.json").read_text())
    steps = {int(file.stem.removeprefix("step-")) for file in (directory / "weights").iterdir()}
    assert set(best.values()) <= steps and len(steps) <= 8
    shutil.rmtree(directory)
