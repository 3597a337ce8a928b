"""Run an ablation: train every cell of a grid with every seed, then make the table.

Each run is a ``train`` command in its own process and directory ``cells/CELL/seed-N``; the runs of
a probe grid are composed in this process (``probe_grid``). Any number of processes and machines may
work on one output directory: the ``train`` process owns its run directory (see ``owner``).
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from multitask.config.yaml_merge import load_extended
from multitask.config.yaml_reader import dump_yaml
from multitask.store.files import entries, remove_scraps, write_text
from multitask.store.lock import owned
from multitask.store.prepare_run import config_differences
from multitask.store.run_directory import open_run
from multitask.sweep.ablation_table import check_tables, write_table
from multitask.sweep.grid import Grid
from multitask.sweep.progress_bars import Progress
from multitask.sweep.same_kernels import choose_kernels
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory, plan_runs
from multitask.utils.errors import UserError
from multitask.utils.signals import on_signal


def sweep(
    grid: Grid,
    output: Path,
    train: Callable[[Sequence[Run], Progress, list[Failure]], None],
    *,
    jobs: int,
) -> None:
    """Train the runs of the grid that are not finished, and write the comparison.

    Args:
        grid: a validated grid.
        output: the sweep's directory; an earlier start there is continued.
        train: trains those runs that are not finished, and adds failures to the list.
        jobs: the number of progress bars for running runs.

    Raises:
        UserError: ``output`` has other content, runs with other configs, or a table without any
            row of this grid (before any training);
            some runs failed (after the others are done); the sweep was interrupted. Then the table
            of the finished runs is written, unless other processes continue and will write it.
    """
    runs = plan_runs(grid, output)
    check = partial(_check, grid, output, runs)
    check()
    text, directory = dump_yaml(grid.resolved), SweepDirectory(output)
    own = partial(owned, directory.lock, "writes the table", waiting=_say_waiting)
    with own():
        check()  # again: another process may have been faster
        remove_scraps(output)
        write_text(directory.grid, text)
        kernels = choose_kernels(directory, runs)
    stopped = False
    failed: list[Failure] = []
    with Progress(len(runs), jobs) as progress:
        try:
            with on_signal(interrupt):
                train([run.with_kernels(kernels) for run in runs], progress, failed)
        except KeyboardInterrupt:
            stopped = True
    with own():
        failed = [failure for failure in failed if not failure.run.finished]  # tried again since
        if directory.grid.read_text(encoding="utf-8") != text:
            print(f"no table: another process has begun another grid in {output}")
        elif stopped and any(run.owner for run in runs):
            print(f"no table: other processes go on in {output} and write it")
        else:
            write_table(grid, runs, output, failed)
    if stopped:
        done = sum(run.finished for run in runs)
        message = f"interrupted: {done} of {len(runs)} runs are finished in {output}"
        raise UserError(f"{message}; go on with the same command")
    if failed:
        names = ", ".join(failure.run.name for failure in failed)
        logs = "" if grid.probe else f"; see their logs ({output}/cells/CELL/logs/seed-N.log)"
        message = f"{len(failed)} of {len(runs)} runs failed: {names}{logs}"
        raise UserError(f"{message}; the same command tries them again")


def _check(grid: Grid, output: Path, runs: Sequence[Run]) -> None:
    """Raise UserError if the sweep would change what it has not made."""
    check_output(output, SweepDirectory(output).grid, "ablation")
    _check_kind(grid, output)
    check_saved(runs)
    check_tables(grid, output)


def check_output(output: Path, saved: Path, what: str) -> None:
    """Raise UserError if a directory has content, but not the file that says ``what`` it is."""
    if not output.exists():
        return
    if not output.is_dir():
        raise UserError(f"{output} is a file: choose another --output DIR")
    if entries(output) and not saved.is_file():
        raise UserError(f"{output} is not empty and holds no {what}: choose another --output DIR")


def _check_kind(grid: Grid, output: Path) -> None:
    """Raise UserError if an earlier start has probes and the grid trains runs, or vice versa."""
    saved = SweepDirectory(output).grid
    if saved.is_file() and load_extended(saved).value.get("probe", False) != grid.probe:
        held = "trained runs, no probes" if grid.probe else "probes, no trained runs"
        raise UserError(f"{output} holds {held}: choose another --output DIR")


def check_saved(runs: Sequence[Run]) -> None:
    """Raise UserError if an earlier start trained a cell of this name with another config."""
    for run in runs:
        if not open_run(run.directory).holds_run:
            continue
        differing = config_differences(run.config, run.directory)
        if differing:
            raise UserError(
                f"cell {run.name}: {run.directory} was trained with another config: {differing}; "
                "take the change back, name the cell otherwise, or choose another --output DIR"
            )


def _say_waiting(name: str) -> None:
    print(f"another process writes the grid or the table ({name}): waiting for it", flush=True)


def interrupt() -> None:
    """End a sweep on SIGTERM, which cluster schedulers send, as on Ctrl-C."""
    raise KeyboardInterrupt
