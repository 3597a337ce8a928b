"""Commands that are killed and repeated: the same results, no scraps.

They are killed at their file operations: at each with ``KILL_EVERY=1``, as `make faults` sets it,
else at every twentieth. `make faults` also kills a run at random moments of the clock.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import run_multitask
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

EVERY = int(os.environ.get("KILL_EVERY", "20"))
PARTS = 2 if EVERY == 1 else 1  # many kills are spread over tests, and so over the cores
OPTIONAL = ("before", "clock", "cells", "warm", "last", "present", "reads", "enough")
RESULTS = ["metrics.jsonl", "weights/*", "predictions/*", "encoder/*", "best.json", "config.yaml"]
OF_RUN = [f"run/{name}" for name in RESULTS]

parts = pytest.mark.parametrize("part", range(PARTS))


@pytest.fixture
def settings(tiny_overrides: list[str]) -> list[str]:
    """Data, encoder and lengths."""
    left = ("output_dir", "training.epochs")
    return [setting for setting in tiny_overrides if not setting.startswith(left)]


@pytest.fixture
def command(settings: list[str]) -> list[str]:
    """A run with holdout, SMART and PCGrad, two evaluations and three checkpoints."""
    pytest.importorskip("torchjd")
    return [
        "configs/cs224n.yaml",
        *settings,
        "training.max_steps=4",
        "training.eval_steps=2",
        "training.checkpoint_steps=3",
        "training.holdout=0.2",
        "training.combine=joint",
        "training.gradient_surgery=pcgrad",
        "tasks.sst.smart.weight=1",
    ]


@pytest.fixture
def check(tmp_path, count) -> Callable[..., None]:
    """Kill a command as planned (see tests/support/kill_everywhere.py), and count the kills."""

    def check(kind: str, first: list[str], again: list[str] | None = None, **plan) -> None:
        file, commands = tmp_path / "plan.json", {"first": first, "again": again or first}
        plan = dict.fromkeys(OPTIONAL) | {"every": EVERY, "offset": 0, "swap": True} | plan
        file.write_text(json.dumps(plan | commands | {"watch": str(tmp_path / "w")}))
        result = subprocess.run(
            [sys.executable, "-m", "tests.support.kill_everywhere", str(file)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        outcome = json.loads(result.stdout)
        assert outcome["problems"] == [], "\n".join(outcome["problems"])[:3000]
        assert outcome["kills"] >= 3
        for _ in range(outcome["kills"]):
            count(kind)

    return check


def part_of(part: int) -> dict[str, int]:
    """The options that leave a test its part of the operations."""
    return {"every": EVERY * PARTS, "offset": EVERY * part}


@parts
def test_a_run_that_is_resumed(part, command, tmp_path, check):
    command = [*command, f"output_dir={tmp_path / 'w' / 'run'}"]
    check(
        "kills of a run, which is resumed",
        command,
        [*command, "--resume"],
        keep=OF_RUN,
        **part_of(part),
    )


@pytest.mark.skipif(EVERY > 1, reason="few draws may all come too late: make faults draws many")
@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_that_is_killed_at_a_random_moment(seed, command, tmp_path, check):
    command = [*command, f"output_dir={tmp_path / 'w' / 'run'}"]
    check(
        "kills of a run at a random moment, which is resumed",
        command,
        [*command, "--resume"],
        keep=OF_RUN,
        clock=30,
        offset=seed,
    )


@pytest.fixture
def old(command, tmp_path) -> str:
    """A directory with an older run."""
    run = tmp_path / "old" / "run"
    assert run_multitask.main([*command, f"output_dir={run}", "training.max_steps=2"]) == 0
    return str(run.parent)


@parts
def test_a_run_that_is_overwritten(part, command, old, tmp_path, check):
    command = [*command, f"output_dir={tmp_path / 'w' / 'run'}", "--overwrite"]
    check(
        "kills of an overwrite, which is repeated",
        command,
        before=old,
        keep=OF_RUN,
        present="run/config.yaml",
        **part_of(part),
    )


def test_a_run_that_is_overwritten_where_directories_cannot_be_swapped(
    command, old, tmp_path, check
):
    run = str(tmp_path / "w" / "run")
    command = [*command, f"output_dir={run}"]
    check(
        "kills of an overwrite without a swap, which is read and repeated",
        [*command, "--overwrite"],
        before=old,
        keep=OF_RUN,
        swap=False,
        reads=["report", run],
        present="run/config.yaml",
        every=max(1, EVERY // 4),
        last=80,  # the new directory is in its place, and the old one is deleted
    )


def write_grid(tmp_path: Path, text: str) -> str:
    grid = tmp_path / "grid.yaml"
    grid.write_text(f"seeds: [1]\n{text}\n")
    return str(grid)


def test_a_probe_grid_that_is_repeated(settings, tmp_path, check):
    base = ROOT / "configs" / "cs224n_minilm.yaml"
    grid = write_grid(
        tmp_path, f"base: {base}\nprobe: true\ngrid: {{tasks.sst.pooling: [cls, mean]}}"
    )
    arguments = ["ablate", grid, *settings, "--output", str(tmp_path / "w" / "sweep")]
    check(
        "kills of a probe grid, which is repeated",
        arguments,
        keep=["sweep/cells/*/*/config.yaml", "sweep/cells/*/*/predictions/*", "sweep/table.csv"],
    )


BASE = """
training: {max_steps: 2, eval_steps: 1, frozen_baseline: false}
tasks:
  sst:
    max_length: 48
    data: {format: tsv, id: id, text: sentence, label: sentiment,
           train: ids-sst-train.csv, dev: ids-sst-dev.csv}
    pooling: cls
    head: classification
"""


@pytest.mark.parametrize("cells", [False, True])
@parts
def test_a_sweep_that_is_repeated(part, cells, settings, tmp_path, check):
    """A sweep of two cells: the process that runs it is killed, or a cell's process.

    Cells are killed at half of the operations: they are runs, which are killed at all of them.
    """
    (tmp_path / "base.yaml").write_text(BASE)
    grid = write_grid(tmp_path, "base: base.yaml\ngrid: {training.lr: [1e-3, 1e-4]}")
    arguments = ["ablate", grid, *settings[:2], "--output", str(tmp_path / "w" / "sweep")]
    check(
        "kills of a sweep's cell" if cells else "kills of a sweep",
        arguments,
        cells=cells,
        warm=[str(tmp_path / "base.yaml"), *settings[:2], f"output_dir={tmp_path / 'warm'}"],
        keep=[
            "sweep/grid.yaml",
            "sweep/table.csv",
            *(f"sweep/cells/*/*/{name}" for name in RESULTS),
        ],
        every=EVERY * PARTS * (1 + cells),
        offset=EVERY * part,
    )


@pytest.fixture
def trained(tiny_run, tmp_path):
    """A copy of a finished run in another directory."""
    shutil.copytree(tiny_run, tmp_path / "before" / "run")
    return str(tmp_path / "before"), str(tmp_path / "w" / "run")


def test_an_export_that_is_repeated(trained, tmp_path, check):
    before, run = trained
    arguments = ["export", run, str(tmp_path / "w" / "made"), "--format", "transformers"]
    arguments += ["--task", "sst", "--encoder-only"]
    check(
        "kills of an export, which is repeated",
        arguments,
        before=before,
        keep=["made/*.safetensors", "made/config.json"],
        enough="something is there already",
        every=max(1, EVERY // 10),
    )


@pytest.mark.parametrize("swap", [True, False])
def test_an_index_that_is_overwritten(swap, trained, tmp_path, check):
    pytest.importorskip("faiss")
    before, run = trained
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film\na dull story\n")
    arguments = ["index", "--texts", str(texts), "--out"]
    assert run_multitask.main([*arguments, f"{before}/made", f"{before}/run"]) == 0
    made = str(tmp_path / "w" / "made")
    arguments += [made, run, "--overwrite"]
    check(
        "kills of an index, which is overwritten",
        arguments,
        before=before,
        keep=["made/index.faiss", "made/texts.tsv"],
        swap=swap,
        reads=None if swap else ["search", made, "a film"],
        present="made/index.json",
        every=max(1, EVERY // 10),
    )


def test_a_paper_table_that_is_repeated(trained, tmp_path, check):
    before, run = trained
    made = tmp_path / "w" / "made"
    arguments = ["table", "configs/glue/table.yaml", run, "--output", str(made)]
    check(
        "kills of a table, which is repeated",
        arguments,
        before=before,
        keep=["made/*"],
        every=max(1, EVERY // 10),
    )
