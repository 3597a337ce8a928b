"""One choice of ``encoder.kernels: auto`` for all runs of a sweep.

Dropout draws differ with the kernels. So a sweep chooses once, saves the choice in its directory,
and tells its runs by the variable ``MULTITASK_KERNELS``.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from multitask.sweep.sweep_directory import Run, SweepDirectory
from multitask.utils.errors import UserError
from multitask.utils.files import write_text
from multitask.utils.names import KERNELS_VARIABLE

ROOT = Path(__file__).parents[2]
ASK = """
import sys
from multitask.models.encoders.kernels import automatic
from multitask.utils.device import pick_device
print(automatic(pick_device(sys.argv[1]))[0])
"""


def choose_kernels(directory: SweepDirectory, runs: Sequence[Run]) -> None:
    """Set ``MULTITASK_KERNELS`` to the saved choice, or choose and save it.

    A variable of the user wins. Raises UserError if the choice cannot be made.
    """
    devices = [run.config.device for run in runs if run.config.encoder.kernels == "auto"]
    if KERNELS_VARIABLE in os.environ or not devices:
        return
    if not directory.kernels.is_file():
        command = [sys.executable, "-c", ASK, devices[0]]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            *_, reason = done.stderr.splitlines() or [""]
            raise UserError(f"encoder.kernels: auto: {reason}; set it to torch")
        write_text(directory.kernels, done.stdout.splitlines()[-1] + "\n")
    os.environ[KERNELS_VARIABLE] = directory.kernels.read_text(encoding="utf-8").strip()
