"""Run an ablation: train every cell of a grid with every seed, then make the table.

Each run is a ``train`` command in its own process and directory ``cells/CELL/seed-N``; the runs of
a probe grid are composed in this process (``probe_grid``). Any number of processes and machines may
work on one output directory: the ``train`` process owns its run directory (see ``owner``).
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from multitask.config.yaml_merge import load_extended
from multitask.config.yaml_reader import dump_yaml
from multitask.store.files import remove_scraps, write_text
from multitask.store.lock import owned
from multitask.store.outputs import check_output
from multitask.store.prepare_run import config_differences
from multitask.store.run_directory import open_run
from multitask.sweep.ablation_table import write_table
from multitask.sweep.grid import Grid
from multitask.sweep.progress_bars import Progress
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory, check_ended, plan_runs
from multitask.utils.errors import UserError
from multitask.utils.names import KERNELS_VARIABLE
from multitask.utils.signals import on_signal

ROOT = Path(__file__).parents[2]
ASK = """
import sys
from multitask.models.encoders.kernels import automatic
from multitask.utils.device import pick_device
print(automatic(pick_device(sys.argv[1]))[0])
"""


def sweep(
    grid: Grid, output: Path, train: Callable[[Sequence[Run], Progress, list[Failure]], None]
) -> None:
    """Train the runs of the grid that are not finished, and write the comparison.

    Args:
        grid: a validated grid.
        output: the sweep's directory; an earlier start there is continued.
        train: trains those runs that are not finished, and adds failures to the list.

    Raises:
        UserError: ``output`` has other content, or runs with other configs (before any training);
            some runs failed (after the others are done); the sweep was interrupted. Then the table
            of the finished runs is written.
    """
    runs, directory = plan_runs(grid, output), SweepDirectory(output)

    def check() -> None:
        check_output(output, directory.grid.name)
        saved = load_extended(directory.grid).value if directory.grid.is_file() else {}
        if saved and saved.get("probe", False) != grid.probe:
            held = "trained runs, no probes" if grid.probe else "probes, no trained runs"
            raise UserError(f"{output} holds {held}: choose another --output DIR")
        check_saved(runs)

    def say_waiting(name: str) -> None:
        print(f"another process writes the grid or the table ({name}): waiting for it", flush=True)

    check()
    own = partial(owned, directory.lock, "writes the table", waiting=say_waiting)
    with own():
        check()  # again: another process may have been faster
        remove_scraps(output)
        write_text(directory.grid, dump_yaml(grid.resolved))
        kernels = choose_kernels(directory, runs)
    stopped = False
    failed: list[Failure] = []
    with Progress(len(runs)) as progress:
        try:
            with on_signal(interrupt):
                train([run.with_kernels(kernels) for run in runs], progress, failed)
        except KeyboardInterrupt:
            stopped = True
    with own():
        failed = [failure for failure in failed if not failure.run.finished]  # tried again since
        write_table(grid, runs, output, failed)
    done = sum(run.finished for run in runs)
    check_ended(done, len(runs), "runs are finished", output=output, failed=failed, stopped=stopped)


def check_saved(runs: Sequence[Run]) -> None:
    """Raise UserError if an earlier start trained a cell of this name with another config."""
    for run in runs:
        held = open_run(run.directory).holds_run
        if held and (differing := config_differences(run.config, run.directory)):
            raise UserError(
                f"cell {run.name}: {run.directory} was trained with another config: {differing}; "
                "take the change back, name the cell otherwise, or choose another --output DIR"
            )


def choose_kernels(directory: SweepDirectory, runs: Sequence[Run]) -> str | None:
    """Return the kernels of all runs with ``encoder.kernels: auto``, as saved or newly chosen.

    Dropout draws differ with the kernels, so a sweep chooses once. None: the configs have made the
    choice, or the user by ``MULTITASK_KERNELS``. Raises UserError if the choice cannot be made.
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


def interrupt() -> None:
    """End a sweep on SIGTERM, which cluster schedulers send, as on Ctrl-C."""
    raise KeyboardInterrupt
