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
from tests.support.fake_sweep import ALL, GRID, ablate, background, ended, starts, until

LOCAL = {"engine": "local", "settings": Settings(Path("runs/g")), "keep_weights": False}


def comparison() -> dict:
    return json.loads(Path("runs/g/comparison.json").read_text())


def test_every_run_once_then_a_table_and_a_second_start_skips(grid, capsys):
    assert ablate(grid, "--jobs", 2) == 0
    output = capsys.readouterr().out
    result = re.findall(r"^cell (\d)/4 (\w) seed (\d): mean (\S+) \(\d+ s\)$", output, re.MULTILINE)
    assert [number for number, *_ in result] == ["1", "2", "3", "4"]
    assert sorted((cell, int(seed)) for _, cell, seed, _ in result) == sorted(ALL)
    assert all(float(mean) == int(seed) / 10 for *_, seed, mean in result)
    table = comparison()
    assert (table["baseline"], table["failed"]) == ("a", [])
    assert {group["name"]: group["seeds"] for group in table["rows"]} == {"a": [1, 2], "b": [1, 2]}
    cells = {"key": "cells", "labels": ["a", "b"], "values": [{}, {"training.epochs": 3}]}
    assert table["axes"] == [cells]
    assert [group["point"] for group in table["rows"]] == [{"cells": "a"}, {"cells": "b"}]
    assert "written: runs/g/table.md" in output
    assert ablate(grid) == 0
    assert "4 of 4 runs are finished already" in capsys.readouterr().out
    assert [len(starts(*run)) for run in ALL] == [1, 1, 1, 1]


def test_the_saved_grid_goes_on_in_the_same_directory(grid, capsys):
    assert ablate(grid, "training.lr=1e-4") == 0
    assert ablate("runs/g/grid.yaml", "--output", "runs/g") == 0
    assert "4 of 4 runs are finished already" in capsys.readouterr().out
    assert load_config("runs/g/cells/b/seed-2/config.yaml").training.lr == 1e-4


@pytest.mark.parametrize(
    ("options", "kept"),
    [([], set()), (["--keep-weights"], {"weights", "checkpoints", "encoder"})],
)
def test_weights_go_unless_they_are_kept_and_a_later_start_removes_none(options, kept, grid):
    assert ablate(grid, *options) == 0 and ablate(grid) == 0
    results = {"config.yaml", "figures", "metrics.jsonl", "report.json", "report.md", "owner.lock"}
    for cell, seed in ALL:
        run = Path(f"runs/g/cells/{cell}/seed-{seed}")
        assert {path.name for path in run.iterdir()} == results | kept


def test_a_failed_run_is_named_and_the_rest_goes_on(grid, capsys, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "b")
    assert ablate(grid) == 2
    captured = capsys.readouterr()
    log = "runs/g/cells/b/logs/seed-1.log"
    assert f"cell 2/4 b seed 1: failed: the data are bad; log: {log}" in captured.out
    assert "cell 3/4 a seed 2: mean 0.200" in captured.out
    (line,) = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert "2 of 4 runs failed: b seed 1, b seed 2: the data are bad; " in line
    assert [group["name"] for group in comparison()["rows"]] == ["a"]
    assert comparison()["failed"][0] == {"cell": "b", "seed": 1, "error": "the data are bad"}
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
    assert [group["name"] for group in comparison()["rows"]] == ["a", "c"]


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


def test_an_interrupted_sweep_leaves_the_table_of_what_is_finished(grid, request):
    assert ablate(grid) == 0
    shutil.rmtree("runs/g/cells/b/seed-2")
    request.getfixturevalue("hold")
    process = background(grid)
    until(lambda: Path("runs/g/cells/b/seed-2/metrics.jsonl").exists())
    process.send_signal(signal.SIGTERM)
    assert "So far 3 of 4 runs are finished." in ended(process, 2)
    assert [group["seeds"] for group in comparison()["rows"]] == [[1, 2], [1]]
    assert comparison()["notes"] == ["So far 3 of 4 runs are finished."]


def test_a_failed_run_that_another_process_has_trained_since_is_no_failure(grid):
    def train(runs, progress, failed):
        train_all(runs, progress, failed, **LOCAL)
        failed.append(Failure(runs[1], "killed"))

    sweep(load_grid(grid), Path("runs/g"), train)
    assert (comparison()["failed"], comparison()["notes"]) == ([], [])


def test_failures_before_an_interruption_are_named(grid):
    def train(runs, progress, failed):
        train_all(runs[:1], progress, failed, **LOCAL)
        failed.append(Failure(runs[1], "the data are bad"))
        raise KeyboardInterrupt

    with pytest.raises(UserError, match="interrupted: 1 of 4"):
        sweep(load_grid(grid), Path("runs/g"), train)
    assert comparison()["notes"][0] == "Failed, and not in the table: b seed 1: the data are bad"


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
    (run,), (own,) = runs("auto"), runs("torch")
    chosen = run.with_kernels("compiled")
    assert chosen.config.encoder.kernels == "compiled"
    assert chosen.arguments == ("encoder.kernels=compiled",)
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
