"""Commands in several real processes."""

import os
import subprocess
import sys

from tests.conftest import ROOT

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
