"""One choice of ``encoder.kernels: auto`` for all runs of a sweep.

Dropout draws differ with the kernels. So a sweep chooses once, saves the choice in its directory,
and sets the key ``encoder.kernels`` of its runs.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from multitask.store.files import write_text
from multitask.sweep.sweep_directory import Run, SweepDirectory
from multitask.utils.errors import UserError
from multitask.utils.names import KERNELS_VARIABLE

ROOT = Path(__file__).parents[2]
ASK = """
import sys
from multitask.models.encoders.kernels import automatic
from multitask.utils.device import pick_device
print(automatic(pick_device(sys.argv[1]))[0])
"""


def choose_kernels(directory: SweepDirectory, runs: Sequence[Run]) -> str | None:
    """Return the saved choice, or choose and save it. None: the configs have made it.

    The variable ``MULTITASK_KERNELS`` of the user wins. Raises UserError if the choice cannot be
    made.
    """
    devices = [run.config.device for run in runs if run.config.encoder.kernels == "auto"]
    if KERNELS_VARIABLE in os.environ or not devices:
        return None
    if not directory.kernels.is_file():
        command = [sys.executable, "-c", ASK, devices[0]]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            *_, reason = done.stderr.splitlines() or [""]
            raise UserError(f"encoder.kernels: auto: {reason}; set it to torch")
        write_text(directory.kernels, done.stdout.splitlines()[-1] + "\n")
    return directory.kernels.read_text(encoding="utf-8").strip()
