"""The loop under trouble: Ctrl-C, NaN, full disk, damaged checkpoints; stopped tasks."""

import copy
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import run_multitask
from multitask.store.run_directory import RunDirectory
from multitask.training import trainer
from multitask.training.checkpoints import load_checkpoint
from multitask.training.loss import Objective
from multitask.training.trainer import Trainer
from multitask.utils.terminal import silent
from tests.conftest import ROOT
from tests.support.kill import interrupt_at
from tests.support.messages import complaint
from tests.support.run_files import events, report_of

EPOCH = 9  # steps: 3 tasks, 40 rows, batches of 16


def command(overrides: list[str], *more: str) -> list[str]:
    extra = ["training.epochs=3", "training.frozen_baseline=false", "training.checkpoint_steps=4"]
    return ["configs/cs224n.yaml", *overrides, *extra, *more]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


@pytest.fixture
def reference(tiny_overrides: list[str], tmp_path: Path) -> list[dict]:
    """Events of the same run without trouble."""
    assert run_multitask.main(command(tiny_overrides, f"output_dir={tmp_path / 'ref'}")) == 0
    return events(tmp_path / "ref")


def test_ctrl_c_saves_and_resumes(tiny_overrides, reference, run, monkeypatch, capsys):
    interrupt_at(monkeypatch, 14)
    line = complaint(capsys, *command(tiny_overrides), code=75)
    assert "interrupted" in line and "--resume" in line
    assert run.saved_checkpoints()[-1] == run.checkpoint(14)
    assert run_multitask.main(command(tiny_overrides, "--resume")) == 0
    assert events(run.path) == reference


def test_ctrl_c_during_an_evaluation(tiny_overrides, reference, run, monkeypatch, capsys):
    original = Trainer.evaluate

    def interrupted(self):
        os.kill(os.getpid(), signal.SIGINT)
        original(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "evaluate", interrupted)
        assert "interrupted" in complaint(capsys, *command(tiny_overrides), code=75)
    assert [event["step"] for event in events(run.path)] == list(range(EPOCH + 1))
    assert run_multitask.main(command(tiny_overrides, "--resume")) == 0
    assert events(run.path) == reference


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
    name, damage, tiny_overrides, reference, run, monkeypatch, capsys
):
    interrupt_at(monkeypatch, 14)
    assert run_multitask.main(command(tiny_overrides)) == 75
    damage(run.saved_checkpoints()[-1] / name)
    capsys.readouterr()
    assert run_multitask.main(command(tiny_overrides, "--resume")) == 0
    said = capsys.readouterr().out
    assert "falling back" in said and "step-00000014" in said
    assert events(run.path) == reference


def test_scores_that_are_not_finite_stop_the_run(tiny_overrides, run, monkeypatch, capsys):
    original = trainer.train_step

    def spoil(model, *args, **more):
        result = original(model, *args, **more)
        with torch.no_grad():
            model.tasks["qqp"].head.linear.bias.fill_(math.nan)
        return result

    monkeypatch.setattr(trainer, "train_step", spoil)
    line = complaint(capsys, *command(tiny_overrides, "training.eval_steps=1"))
    assert "task qqp" in line and "not finite" in line and "no checkpoint yet" in line
    assert (last := events(run.path)[-1])["event"] == "diverged"
    assert last["step"] == 1 and "task qqp" in last["reason"]
    monkeypatch.setattr(trainer, "train_step", original)  # a resumed run has no such line
    assert run_multitask.main(command(tiny_overrides, "training.eval_steps=1", "--resume")) == 0
    assert "diverged" not in {event["event"] for event in events(run.path)}


def test_nan_loss_stops_with_the_last_checkpoint_intact(tiny_overrides, run, monkeypatch, capsys):
    original, calls = Objective.losses, []

    def poisoned(*args, **more):
        calls.append(1)
        factor = math.nan if len(calls) == 11 else 1.0
        result = original(*args, **more)
        return {task: one._replace(loss=one.loss * factor) for task, one in result.items()}

    monkeypatch.setattr(Objective, "losses", poisoned)
    line = complaint(capsys, *command(tiny_overrides))
    assert "step 11, task qqp" in line and "nan" in line and "step-00000009" in line
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
def test_full_disk_is_one_line_and_harms_nothing(tiny_overrides, reference, run):
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
    assert events(run.path) == reference


def test_stopped_task_is_skipped_counted_and_does_not_move(planned, run, monkeypatch):
    """Two tasks of three stop after the second evaluation; the schedule goes on as planned."""
    patience = [f"tasks.{task}.early_stopping.patience=1" for task in ("sst", "qqp")]
    plan = planned("training.epochs=4", "training.weight_decay=0.5", *patience)
    run.path.mkdir()
    loop = Trainer(plan, run.path, silent)
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
            at_stop[task] = copy.deepcopy(plan.model.tasks[task].state_dict())
        return now

    monkeypatch.setattr(stopping, "update", watched)
    loop.run()
    # NaN never improves: qqp is out of patience at the first evaluation, sst at the second
    assert stopping.stopped == {"qqp": EPOCH, "sst": 2 * EPOCH}
    assert loop.progress.skipped == {"qqp": 9, "sst": 6}
    assert loop.progress.trained == {"qqp": 3, "sst": 6, "sts": 12}
    assert loop.stages.scheduler.last_epoch == loop.stages.total_steps == 4 * EPOCH
    for task, state in at_stop.items():
        for name, value in plan.model.tasks[task].state_dict().items():
            assert torch.equal(value, state[name]), (task, name)
    assert [event["task"] for event in events(run.path, "stop")] == ["qqp", "sst"]
    last_step = events(run.path, "step")[-1]
    warmup = round(0.1 * loop.stages.total_steps)
    left = loop.stages.total_steps - (last_step["step"] - 1)
    assert last_step["lr"] == pytest.approx(2e-5 * left / (loop.stages.total_steps - warmup))
    still = events(run.path, "eval")[-1]["tasks"]
    assert set(still) == {"sst", "qqp", "sts"}  # stopped tasks are still evaluated


def test_all_tasks_stopped_ends_the_run(tiny_overrides, run):
    stop = "defaults.early_stopping={patience: 1, min_delta: 9}"
    assert run_multitask.main(command(tiny_overrides, stop)) == 0
    assert report_of(run.path)["steps"] == {"planned": 3 * EPOCH, "done": 2 * EPOCH}


def test_same_seed_same_numbers_and_another_seed_others(tiny_overrides, tmp_path):
    logs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        directory = tmp_path / name
        more = ["training.max_steps=9", f"seed={seed}", f"output_dir={directory}"]
        assert run_multitask.main(command(tiny_overrides, *more)) == 0
        logs.append(events(directory))
    assert logs[0] == logs[1] != logs[2]


def test_per_task_selection_uses_each_tasks_own_step(tiny_overrides, run):
    select = ["training.select=per_task", "training.eval_steps=3", "training.lr=0.01"]
    assert run_multitask.main(command(tiny_overrides, *select)) == 0
    evaluations = events(run.path, "eval")
    for task, entry in report_of(run.path)["tasks"].items():
        metric = entry["metric"]
        values = {e["step"]: e["tasks"][task][metric] for e in evaluations}
        best = max(value for value in values.values() if value is not None)
        assert values[entry["selected_step"]] == best
        assert entry["dev"][metric] == pytest.approx(best, abs=1e-6)


def test_checkpoints_are_pruned_and_disk_use_is_bounded(tiny_overrides, run):
    assert run_multitask.main(command(tiny_overrides, "training.eval_steps=3")) == 0
    steps = run.saved_weights().keys()
    assert len(run.saved_checkpoints()) == 1
    assert set(run.best_steps().values()) <= steps and len(steps) <= 8
