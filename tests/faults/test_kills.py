"""Commands that are killed at their file operations, and repeated: the same results, no scraps.

``KILL_EVERY=1`` tries every operation; the slow suite tries every twentieth.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

import run_multitask
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

EVERY = int(os.environ.get("KILL_EVERY", "20"))
RESULTS = ["metrics.jsonl", "weights/*", "predictions/*", "encoder/*", "best.json", "config.yaml"]


@pytest.fixture
def command(tiny_overrides):
    """A run with holdout, SMART and PCGrad."""
    return [
        "configs/cs224n.yaml",
        *[
            word
            for word in tiny_overrides
            if not word.startswith(("output_dir", "training.epochs"))
        ],
        "training.max_steps=6",
        "training.eval_steps=3",
        "training.checkpoint_steps=2",
        "training.holdout=0.2",
        "training.combine=joint",
        "training.gradient_surgery=pcgrad",
        "tasks.sst.smart.weight=1",
    ]


def kill_everywhere(tmp_path, **plan) -> dict:
    """See tests/support/kill_everywhere.py."""
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"before": None, "every": EVERY, "offset": 0} | plan))
    result = subprocess.run(
        [sys.executable, "-m", "tests.support.kill_everywhere", str(file)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def check(found: dict, count, kind: str) -> None:
    assert not found["problems"]
    assert found["kills"] >= 3
    for _ in range(found["kills"]):
        count(kind)


def test_a_run_that_is_resumed(command, tmp_path, count):
    pytest.importorskip("torchjd")
    command = [*command, f"output_dir={tmp_path / 'w' / 'run'}"]
    found = kill_everywhere(
        tmp_path,
        first=command,
        again=[[*command, "--resume"]],
        watch=str(tmp_path / "w"),
        keep=[f"run/{name}" for name in RESULTS],
    )
    check(found, count, "kills of a run, which is resumed")


def test_a_run_that_is_overwritten(command, tmp_path, count):
    pytest.importorskip("torchjd")
    old = [*command, f"output_dir={tmp_path / 'old' / 'run'}", "training.max_steps=2"]
    assert run_multitask.main(old) == 0
    command = [*command, f"output_dir={tmp_path / 'w' / 'run'}", "--overwrite"]
    found = kill_everywhere(
        tmp_path,
        first=command,
        again=[command],
        watch=str(tmp_path / "w"),
        before=str(tmp_path / "old"),
        keep=[f"run/{name}" for name in RESULTS],
        always="run/config.yaml",
    )
    check(found, count, "kills of an overwrite, which is repeated")


def test_a_probe_grid_that_is_repeated(command, tmp_path, count):
    """A sweep in one process; tests/sweep kills those of several."""
    grid = tmp_path / "grid.yaml"
    base = f"base: {ROOT / 'configs' / 'cs224n_minilm.yaml'}"
    grid.write_text(f"{base}\nprobe: true\nseeds: [1]\ngrid: {{tasks.sst.pooling: [cls, mean]}}\n")
    names = ("data_dir", "encoder.name", "tasks")
    settings = [w for w in command if w.startswith(names) and "smart" not in w]
    arguments = ["ablate", str(grid), *settings, "--output", str(tmp_path / "w" / "sweep")]
    found = kill_everywhere(
        tmp_path,
        first=arguments,
        again=[arguments],
        watch=str(tmp_path / "w"),
        keep=["sweep/cells/*/*/config.yaml", "sweep/cells/*/*/predictions/*", "sweep/table.csv"],
    )
    check(found, count, "kills of a probe grid, which is repeated")


@pytest.fixture
def trained(tiny_run, tmp_path):
    """A copy of a finished run in another directory."""
    shutil.copytree(tiny_run, tmp_path / "before" / "run")
    return str(tmp_path / "before"), str(tmp_path / "w" / "run")


def test_an_export_that_is_repeated(trained, tmp_path, count):
    before, run = trained
    arguments = ["export", run, str(tmp_path / "w" / "made"), "--format", "transformers"]
    arguments += ["--task", "sst", "--encoder-only"]
    found = kill_everywhere(
        tmp_path,
        first=arguments,
        again=[arguments],
        watch=str(tmp_path / "w"),
        before=before,
        keep=["made/*.safetensors", "made/config.json"],
        enough="something is there already",
        every=max(1, EVERY // 10),
    )
    check(found, count, "kills of an export, which is repeated")


def test_an_index_that_is_overwritten(trained, tmp_path, count):
    pytest.importorskip("faiss")
    before, run = trained
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film\na dull story\n")
    arguments = ["index", "--texts", str(texts), "--out"]
    assert run_multitask.main([*arguments, f"{before}/made", f"{before}/run"]) == 0
    arguments += [str(tmp_path / "w" / "made"), run, "--overwrite"]
    found = kill_everywhere(
        tmp_path,
        first=arguments,
        again=[arguments],
        watch=str(tmp_path / "w"),
        before=before,
        keep=["made/index.faiss", "made/texts.tsv"],
        always="made/index.json",
        every=max(1, EVERY // 10),
    )
    check(found, count, "kills of an index, which is overwritten")
