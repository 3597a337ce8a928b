"""`ablate` with real training: a tiny encoder, small data, real processes, kill -9.

One grid serves all tests, and every process costs seconds of imports: it is killed in its first
run, gone on with, and held against runs that were trained here, without a stop.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import multitask
import run_multitask
from multitask.utils.names import KERNELS_VARIABLE
from tests.conftest import ROOT
from tests.support.run_files import report_of

pytestmark = pytest.mark.slow

CELLS = ("cls", "mean")


@pytest.fixture(scope="module")
def desk(tiny_encoder: Path, course_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a grid file."""
    directory = tmp_path_factory.mktemp("desk")
    (directory / "g.yaml").write_text(
        f"base: {ROOT / 'configs' / 'cs224n.yaml'}\n"
        "set:\n"
        f"  data_dir: {course_files}\n"
        f"  encoder.name: {tiny_encoder}\n"
        "  defaults.max_length: 48\n"
        "  defaults.max_rows: 32\n"
        "  training: {epochs: 6, precision: fp32, checkpoint_steps: 2, frozen_baseline: false}\n"
        "  tasks.sts: null\n"
        "seeds: [2]\n"
        "grid:\n"
        "  tasks.sst.pooling: [cls, mean]\n"
    )
    return directory


def ablate(desk: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run_multitask.py"), "ablate", "g.yaml", *arguments],
        cwd=desk,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def finished(desk: Path) -> Path:
    """The sweep's directory: killed as soon as its first run could be resumed, then gone on."""
    first = desk / "runs" / "g" / "cells" / "cls" / "seed-2"
    process = ablate(desk)
    for _ in range(3000):
        if any(path.name.startswith("step-") for path in first.glob("checkpoints/*")):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (first / "checkpoints").is_dir() and not (first / "report.json").exists()
    process = ablate(desk, "--jobs", "2")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return desk / "runs" / "g"


def numbers(run: Path) -> tuple[list[str], dict]:
    """Every logged line and the report, without what differs between two runs of one config."""
    report = report_of(run)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return lines, {"overall": report["overall"], "tasks": report["tasks"]}


def test_a_grid_is_trained_and_compared(finished):
    comparison = json.loads((finished / "comparison.json").read_text())
    assert comparison["baseline"] == "cls"
    assert [(g["name"], g["seeds"]) for g in comparison["rows"]] == [("cls", [2]), ("mean", [2])]
    key = "tasks.sst.pooling"
    assert comparison["axes"] == [{"key": key, "labels": list(CELLS), "values": list(CELLS)}]
    assert [g["settings"] for g in comparison["rows"]] == [{key: cell} for cell in CELLS]
    assert "data:image/png;base64," in (finished / "report.html").read_text(encoding="utf-8")
    for cell in CELLS:
        run = finished / "cells" / cell / "seed-2"
        report = report_of(run)
        assert report["seed"] == 2
        assert report["tasks"]["sst"]["pooling"] == cell
        assert report["tasks"]["sst"]["data"]["train"]["rows"] == 32
        assert not any((run / name).exists() for name in ("weights", "checkpoints", "encoder"))
        assert (run / "predictions" / "sst.dev.jsonl").exists()
        assert [*run.parent.glob("seed-*")] == [run]  # for a shell: no logs
    reports = [numbers(finished / "cells" / cell / "seed-2")[1] for cell in CELLS]
    assert reports[0] != reports[1]


def test_a_killed_sweep_comes_to_the_numbers_of_runs_without_a_stop(finished, tmp_path):
    assert "resuming " in (finished / "cells" / "cls" / "logs" / "seed-2.log").read_text()
    assert "resuming " not in (finished / "cells" / "mean" / "logs" / "seed-2.log").read_text()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the sweep: the order of sums must be the same
    try:
        for cell in CELLS:
            run, alone = finished / "cells" / cell / "seed-2", tmp_path / cell
            assert run_multitask.main([str(run / "config.yaml"), f"output_dir={alone}"]) == 0
            assert numbers(run) == numbers(alone)
    finally:
        torch.set_num_threads(threads)
    assert all(lock.read_text() == "" for lock in finished.rglob("owner.lock"))


def test_a_run_without_its_weights_says_so(finished, capsys):
    assert run_multitask.main(["evaluate", str(finished / "cells" / "cls" / "seed-2")]) == 2
    assert "the run's weights were removed, as `ablate` does" in capsys.readouterr().err


def test_a_second_start_trains_nothing(finished, desk):
    before = {file: file.stat().st_mtime_ns for file in finished.rglob("seed-*.log")}
    process = ablate(desk)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "2 of 2 runs are finished already" in output
    assert {file: file.stat().st_mtime_ns for file in finished.rglob("seed-*.log")} == before


def test_python_gets_the_finished_runs(finished, desk, monkeypatch):
    monkeypatch.delenv(KERNELS_VARIABLE)
    (finished / "grid.kernels").write_text("torch\n")
    runs = multitask.ablate(desk / "g.yaml", output=finished, jobs=2)
    assert runs == {cell: [finished / "cells" / cell / "seed-2"] for cell in CELLS}
    assert KERNELS_VARIABLE not in os.environ  # the next run of this process has its own choice
    with pytest.raises(multitask.UserError, match="--jobs: expected a whole number ≥ 1, not 0"):
        multitask.ablate(desk / "g.yaml", output=finished, jobs=0)
