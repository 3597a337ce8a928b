"""`ablate` with a stand-in for training: who trains what, when, and what is said and left."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from multitask.config import load_config
from multitask.sweep import run_sweep
from multitask.sweep.engines.base import Settings
from multitask.sweep.grid import load_grid
from multitask.sweep.pool import train_all
from multitask.sweep.run_sweep import choose_kernels, sweep
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory
from multitask.utils.errors import UserError
from multitask.utils.names import KERNELS_VARIABLE
from tests.conftest import ROOT
from tests.support.fake_sweep import ALL, GRID, ablate, background, starts, until

LOCAL = {"engine": "local", "settings": Settings(Path("runs/g")), "keep_weights": False}


def test_every_run_once_then_a_table_and_a_second_start_skips(grid, capsys):
    assert ablate(grid, "--jobs", 2) == 0
    output = capsys.readouterr().out
    result = re.findall(r"^cell (\d)/4 (\w) seed (\d): mean (\S+) \(\d+ s\)$", output, re.MULTILINE)
    assert [number for number, *_ in result] == ["1", "2", "3", "4"]
    assert sorted((cell, int(seed)) for _, cell, seed, _ in result) == sorted(ALL)
    assert all(float(mean) == int(seed) / 10 for *_, seed, mean in result)
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert (comparison["baseline"], comparison["failed"]) == ("a", [])
    assert {g["name"]: g["seeds"] for g in comparison["rows"]} == {"a": [1, 2], "b": [1, 2]}
    cells = {"key": "cells", "labels": ["a", "b"], "values": [{}, {"training.epochs": 3}]}
    assert comparison["axes"] == [cells]
    assert [group["point"] for group in comparison["rows"]] == [{"cells": "a"}, {"cells": "b"}]
    assert "written: runs/g/table.md" in output
    assert ablate(grid) == 0
    assert "4 of 4 runs are finished already" in capsys.readouterr().out
    assert [len(starts(*run)) for run in ALL] == [1, 1, 1, 1]


def test_the_saved_grid_goes_on_in_the_same_directory(grid, capsys):
    assert ablate(grid, "training.lr=1e-4") == 0
    assert ablate("runs/g/grid.yaml", "--output", "runs/g") == 0
    assert "4 of 4 runs are finished already" in capsys.readouterr().out
    assert load_config("runs/g/cells/b/seed-2/config.yaml").training.lr == 1e-4


def test_weights_go_and_the_result_stays(grid):
    assert ablate(grid) == 0
    names = {path.name for path in Path("runs/g/cells/a/seed-1").iterdir()}
    results = {"config.yaml", "figures", "metrics.jsonl", "report.json", "report.md"}
    assert names == results | {"owner.lock"}


def test_keep_weights_keeps_them_through_a_later_start_without_it(grid):
    assert ablate(grid, "--keep-weights") == 0
    assert ablate(grid) == 0
    for cell, seed in ALL:
        run = Path(f"runs/g/cells/{cell}/seed-{seed}")
        assert all((run / name / "file").exists() for name in ("weights", "checkpoints", "encoder"))


def test_a_failed_run_is_named_and_the_rest_goes_on(grid, capsys, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "b")
    assert ablate(grid) == 2
    captured = capsys.readouterr()
    log = "runs/g/cells/b/logs/seed-1.log"
    assert f"cell 2/4 b seed 1: failed: the data are bad; log: {log}" in captured.out
    assert "cell 3/4 a seed 2: mean 0.200" in captured.out
    (line,) = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert "2 of 4 runs failed: b seed 1, b seed 2: the data are bad; " in line
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert [group["name"] for group in comparison["rows"]] == ["a"]
    assert comparison["failed"][0] == {"cell": "b", "seed": 1, "error": "the data are bad"}
    assert "b seed 1: the data are bad" in Path("runs/g/table.md").read_text()
    monkeypatch.delenv("FAKE_FAIL")
    assert ablate(grid) == 0
    assert "2 of 4 runs are finished already" in capsys.readouterr().out
    assert [len(starts(*run)) for run in ALL] == [1, 2, 1, 2]


def test_a_changed_cell_is_refused_before_anything_runs(grid, capsys):
    assert ablate(grid) == 0
    grid.write_text(GRID.replace("epochs: 3", "epochs: 5").replace("a: {}", "new: {}, a: {}"))
    assert ablate(grid) == 2
    error = capsys.readouterr().err
    assert "cell b seed 1: runs/g/cells/b/seed-1 was trained with another config: " in error
    assert "training.epochs (3 -> 5)" in error
    assert not Path("runs/g/cells/new").exists()


def test_renamed_cells_are_left_alone(grid, capsys):
    assert ablate(grid) == 0
    grid.write_text(GRID.replace("b: {", "c: {"))
    assert ablate(grid) == 0
    assert "2 of 4 runs are finished already" in capsys.readouterr().out
    assert Path("runs/g/cells/b/seed-1/report.json").exists()
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert [group["name"] for group in comparison["rows"]] == ["a", "c"]


def test_a_foreign_directory_is_not_touched(grid, capsys):
    Path("mine").mkdir()
    Path("mine/notes.txt").touch()
    assert ablate(grid, "--output", "mine") == 2
    assert "mine is not empty" in capsys.readouterr().err
    assert ablate(grid, "--output", "mine/notes.txt") == 2
    assert "is a file" in capsys.readouterr().err
    assert ablate(grid, "--jobs", 0) == 2
    assert "--jobs" in capsys.readouterr().err
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


def test_an_interrupted_sweep_leaves_the_table_of_what_is_finished(grid, monkeypatch):
    assert ablate(grid) == 0
    shutil.rmtree("runs/g/cells/b/seed-2")
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    process = background(grid)
    until(lambda: Path("runs/g/cells/b/seed-2/metrics.jsonl").exists())
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "So far 3 of 4 runs are finished." in output
    saved = json.loads(Path("runs/g/comparison.json").read_text())
    assert [group["seeds"] for group in saved["rows"]] == [[1, 2], [1]]
    assert saved["notes"] == ["So far 3 of 4 runs are finished."]


def test_an_interrupted_sweep_leaves_the_table_to_those_that_go_on(grid, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    both = [background(grid), background(grid)]
    held = [Path(f"runs/g/cells/{cell}/seed-1/metrics.jsonl") for cell in "ab"]
    until(lambda: all(file.exists() for file in held))
    both[0].send_signal(signal.SIGTERM)
    said, _ = both[0].communicate(timeout=60)
    assert both[0].returncode == 2 and "no table: other processes go on in runs/g" in said
    assert not Path("runs/g/table.md").exists()
    grid.with_name("hold").unlink()
    assert both[1].communicate(timeout=60) and both[1].returncode == 0
    assert json.loads(Path("runs/g/comparison.json").read_text())["notes"] == []


def test_a_failed_run_that_another_process_has_trained_since_is_no_failure(grid):
    def train(runs, progress, failed):
        train_all(runs, progress, failed, **LOCAL)
        failed.append(Failure(runs[1], "killed"))

    sweep(load_grid(grid), Path("runs/g"), train)
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert (comparison["failed"], comparison["notes"]) == ([], [])


def test_the_table_of_a_later_grid_is_left_alone(grid, capsys):
    def train(runs, progress, failed):
        grid.write_text(GRID.replace("[1, 2]", "[1, 2, 3]"))
        assert ablate(grid) == 0

    sweep(load_grid(grid), Path("runs/g"), train)
    assert "no table: another process has begun another grid" in capsys.readouterr().out
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert [group["seeds"] for group in comparison["rows"]] == [[1, 2, 3]] * 2


def test_failures_before_an_interruption_are_named(grid):
    def train(runs, progress, failed):
        train_all(runs[:1], progress, failed, **LOCAL)
        failed.append(Failure(runs[1], "the data are bad"))
        raise KeyboardInterrupt

    with pytest.raises(UserError, match="interrupted: 1 of 4"):
        sweep(load_grid(grid), Path("runs/g"), train)
    notes = json.loads(Path("runs/g/comparison.json").read_text())["notes"]
    assert notes[0] == "Failed, and not in the table: b seed 1: the data are bad"


# --- one choice of kernels for all runs


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A function: runs of a sweep whose config has these kernels."""
    monkeypatch.setenv(KERNELS_VARIABLE, "")  # so that it is restored
    monkeypatch.delenv(KERNELS_VARIABLE)

    def make(kernels, device="cpu"):
        overrides = [f"encoder.kernels={kernels}", f"device={device}"]
        config = load_config(ROOT / "configs" / "demo.yaml", overrides)
        return [Run("a", 1, tmp_path / "cells" / "a" / "seed-1", config, ())]

    return make


def test_the_choice_is_saved_and_found_again(runs, tmp_path, monkeypatch):
    directory = SweepDirectory(tmp_path)
    monkeypatch.setattr(run_sweep, "ASK", "print('noise'); print('compiled')")
    assert choose_kernels(directory, runs("auto")) == "compiled"
    assert directory.kernels.read_text() == "compiled\n"
    monkeypatch.setattr(run_sweep, "ASK", "raise SystemExit(1)")  # it is not asked again
    assert choose_kernels(directory, runs("auto")) == "compiled"
    assert KERNELS_VARIABLE not in os.environ


def test_the_choice_is_a_key_of_a_run_that_has_none(runs):
    (run,) = runs("auto")
    chosen = run.with_kernels("compiled")
    assert chosen.config.encoder.kernels == "compiled"
    assert chosen.arguments == ("encoder.kernels=compiled",)
    (own,) = runs("torch")
    assert own.with_kernels("compiled") == own and run.with_kernels(None) == run


def test_nothing_is_chosen_where_the_config_or_the_user_has(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(run_sweep, "ASK", "raise SystemExit(1)")
    assert choose_kernels(SweepDirectory(tmp_path), runs("torch")) is None
    monkeypatch.setenv(KERNELS_VARIABLE, "torch")
    assert choose_kernels(SweepDirectory(tmp_path), runs("auto")) is None
    assert not SweepDirectory(tmp_path).kernels.exists()


def test_a_failure_is_one_line(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(run_sweep, "ASK", "raise ValueError('no torch here')")
    with pytest.raises(UserError, match="no torch here; set it to torch"):
        choose_kernels(SweepDirectory(tmp_path), runs("auto"))


def test_a_new_process_can_be_asked(runs, tmp_path, monkeypatch):
    """Without a compiler the answer is torch, and nothing is built."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "builds"))
    assert choose_kernels(SweepDirectory(tmp_path), runs("auto")) == "torch"
    assert not (tmp_path / "builds").exists()
