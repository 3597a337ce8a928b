"""`ablate` with real training: a tiny encoder, small data, real processes, kill -9."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import run_multitask
from tests.conftest import ROOT

RUN = """
import sys
import run_multitask
sys.exit(run_multitask.main(sys.argv[1:]))
"""


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
        "seeds: [1, 2]\n"
        "grid:\n"
        "  tasks.sst.pooling: [cls, mean]\n"
    )
    return directory


def ablate(desk: Path, grid: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, "ablate", grid, *arguments],
        cwd=desk,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def finished(desk: Path) -> Path:
    process = ablate(desk, "g.yaml", "--jobs", "2")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return desk / "runs" / "g"


def numbers(run: Path) -> tuple[list[str], dict]:
    """Every logged line and the report, without what differs between two runs of one config."""
    report = json.loads((run / "report.json").read_text())
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return lines, {"overall": report["overall"], "tasks": report["tasks"]}


def test_a_grid_is_trained_and_compared(finished):
    comparison = json.loads((finished / "comparison.json").read_text())
    assert comparison["baseline"] == "cls"
    assert [(g["name"], g["seeds"]) for g in comparison["groups"]] == [
        ("cls", [1, 2]),
        ("mean", [1, 2]),
    ]
    key = "tasks.sst.pooling"
    assert comparison["axes"] == [
        {"key": key, "labels": ["cls", "mean"], "values": ["cls", "mean"]}
    ]
    assert [g["settings"] for g in comparison["groups"]] == [{key: "cls"}, {key: "mean"}]
    assert "data:image/png;base64," in (finished / "report.html").read_text(encoding="utf-8")
    for cell in ("cls", "mean"):
        for seed in (1, 2):
            run = finished / "cells" / cell / f"seed-{seed}"
            report = json.loads((run / "report.json").read_text())
            assert report["seed"] == seed
            assert report["tasks"]["sst"]["pooling"] == cell
            assert report["tasks"]["sst"]["data"]["train"]["rows"] == 32
            assert not any((run / name).exists() for name in ("weights", "checkpoints", "encoder"))
            assert (run / "predictions" / "sst.dev.jsonl").exists()
    reports = [numbers(finished / "cells" / cell / "seed-1")[1] for cell in ("cls", "mean")]
    assert reports[0] != reports[1]


def test_a_run_without_its_weights_says_so(finished, capsys):
    assert run_multitask.main(["evaluate", str(finished / "cells" / "cls" / "seed-1")]) == 2
    assert "the run's weights were removed, as `ablate` does" in capsys.readouterr().err


def test_a_second_start_trains_nothing(finished, desk):
    before = {file: file.stat().st_mtime_ns for file in finished.rglob("seed-*.log")}
    process = ablate(desk, "g.yaml")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "4 of 4 runs are finished already" in output
    assert {file: file.stat().st_mtime_ns for file in finished.rglob("seed-*.log")} == before


def test_after_kill_9_a_second_start_comes_to_the_same_numbers(finished, desk):
    (desk / "again.yaml").write_text("extends: g.yaml\nseeds: [1]\n")
    again = desk / "runs" / "again"
    process = ablate(desk, "again.yaml")
    checkpoints = again / "cells" / "cls" / "seed-1" / "checkpoints"
    for _ in range(3000):  # until the run has something to go on from
        if checkpoints.is_dir() and any(p.name.startswith("step-") for p in checkpoints.iterdir()):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (again / "cells" / "cls" / "seed-1" / "report.json").exists()
    process = ablate(desk, "again.yaml", "--jobs", "2")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "resuming " in (again / "cells" / "cls" / "seed-1.log").read_text()
    for name in ("cells/cls/seed-1", "cells/mean/seed-1"):
        assert numbers(again / name) == numbers(finished / name)
    assert not list(again.rglob("*.claim-*"))
