"""A grid of six cells that are really trained, and its numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

GRID = """
base: {root}/configs/cs224n.yaml
set:
  data_dir: {data}
  encoder.name: {encoder}
  defaults.max_length: 48
  defaults.max_rows: 24
  training: {{epochs: {epochs}, precision: fp32, frozen_baseline: false}}
  tasks.qqp: null
  tasks.sts: null
seeds: [1]
grid:
  tasks.sst.pooling: [cls, mean, max]
  training.lr: [1e-4, 1e-3]
"""
# the keys of a group in comparison.json with times and paths
DIFFERING = ("runs", "epoch_seconds")


def write_grid(desk: Path, encoder: Path, data: Path, *, epochs: int) -> None:
    """Write the grid to ``t.yaml``."""
    (desk / "t.yaml").write_text(GRID.format(root=ROOT, data=data, encoder=encoder, epochs=epochs))


def start(desk: Path, engine: str, output: str) -> subprocess.Popen[str]:
    """Start or go on with the grid, two runs at a time."""
    arguments = ["ablate", "t.yaml", "--engine", engine, "--output", output, "--jobs", "2"]
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run_multitask.py"), *arguments, "--cpus-per-run", "1"],
        cwd=desk,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def train(desk: Path, engine: str, output: str) -> None:
    process = start(desk, engine, output)
    said, _ = process.communicate()
    assert process.returncode == 0, said


def numbers(desk: Path, output: str) -> dict:
    """A comparison without times and paths."""
    comparison = json.loads((desk / output / "comparison.json").read_text())
    for group in comparison["rows"]:
        for key in DIFFERING:
            del group[key]
    # a note lists commits if somebody commits while the grids are trained
    comparison["notes"] = [note for note in comparison["notes"] if "commits" not in note]
    return comparison
