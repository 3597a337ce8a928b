"""Commands in several real processes."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import run_multitask
from tests.conftest import ROOT
from tests.support.run_files import events, report_of

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def launch(launcher: list[str], *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``python`` with these arguments, one thread per process."""
    return subprocess.run(
        [sys.executable, *launcher, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )


def check_two_processes(
    command: Sequence[str], directory: Path, metrics: Mapping[str, str]
) -> None:
    """Train 8 steps on one and on two processes: the same rows, losses, gradients and dev scores.

    ``metrics`` has the metric of each task. The run must have no dropout: each rank draws its own.
    """
    alone, both = directory / "alone", directory / "both"
    command = [*command, "training.max_steps=8"]
    assert run_multitask.main([*command, f"output_dir={alone}"]) == 0
    result = launch(TORCHRUN, "run_multitask.py", *command, f"output_dir={both}")
    assert result.returncode == 0, result.stderr
    steps, expected = (events(run, "step") for run in (both, alone))
    assert len(steps) == len(expected) == 8
    assert [e["rows"] for e in steps] == [e["rows"] for e in expected]
    for key, tolerance in (("loss", 1e-4), ("grad_norm", 1e-3)):
        values = [e[key] for e in steps]
        np.testing.assert_allclose(values, [e[key] for e in expected], rtol=tolerance)
    assert report_of(both)["processes"] == 2
    for task, metric in metrics.items():
        actual, wanted = (report_of(run)["tasks"][task]["dev"] for run in (both, alone))
        assert actual[metric] == pytest.approx(wanted[metric], rel=1e-4)
        assert actual["loss"] == pytest.approx(wanted["loss"], rel=1e-3)
