"""Run an ablation: train every cell of a grid with every seed, then compare the cells.

Each run is a ``train`` command in its own process and directory ``cells/CELL/seed-N``; the runs of
a probe grid are composed in this process (``probe_grid``). Any number of processes and machines may
work on one output directory: a claim on ``cells/CELL/seed-N`` (see ``claims``) says which of them
trains the run.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from multitask.config.run_start import config_differences
from multitask.config.yaml_reader import dump_override, dump_yaml
from multitask.config.yaml_tree import load_extended
from multitask.sweep.claims import exclusive, held
from multitask.sweep.grid import TASKS, Grid
from multitask.sweep.progress_bars import Progress
from multitask.sweep.runs import Failure, Run, SweepDirectory
from multitask.utils.errors import UserError
from multitask.utils.files import is_scrap, remove_scraps, write_text
from multitask.utils.signals import Signals


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
        UserError: ``output`` has other content, or runs with other configs (before any training);
            some runs failed (after the others are done); the sweep was interrupted. Then the table
            of the finished runs is written, unless other processes continue and will write it.
    """
    _check_output(output)
    _check_kind(grid, output)
    runs = plan_runs(grid, output)
    _check_saved(runs)
    output.mkdir(parents=True, exist_ok=True)
    text, directory = dump_yaml(grid.resolved), SweepDirectory(output)
    with exclusive(directory.grid_claim):
        remove_scraps(output)
        write_text(directory.grid, text)
    stopped = False
    failed: list[Failure] = []
    with Progress(len(runs), jobs) as progress:
        try:
            with Signals(_interrupt):
                train(runs, progress, failed)
        except KeyboardInterrupt:
            stopped = True
    with exclusive(directory.grid_claim):
        failed = [failure for failure in failed if not failure.run.finished]  # tried again since
        if directory.grid.read_text(encoding="utf-8") != text:
            print(
                f"no table: another process has begun another grid in {output} and writes its own"
            )
        elif stopped and any(held(run.directory) for run in runs):
            print(f"no table: other processes go on in {output} and write it")
        else:
            write_table(grid, runs, output, failed)
    if stopped:
        done = sum(run.finished for run in runs)
        raise UserError(
            f"interrupted: {done} of {len(runs)} runs are finished in {output}; go on with "
            "the same command"
        )
    if failed:
        names = ", ".join(failure.run.name for failure in failed)
        logs = "" if grid.probe else f"; see their logs ({output}/cells/CELL/logs/seed-N.log)"
        raise UserError(
            f"{len(failed)} of {len(runs)} runs failed: {names}{logs}; the same command tries "
            "them again"
        )


def plan_runs(grid: Grid, output: Path) -> list[Run]:
    """List all cells with the first seed, then with the next: an early table has all cells."""
    runs = []
    for seed in grid.seeds:
        for cell in grid.cells:
            directory = SweepDirectory(output).run(cell.name, seed)
            settings = [setting.text for setting in cell.settings]
            of_run = [dump_override("seed", seed), dump_override("output_dir", str(directory))]
            arguments = ("train", str(grid.base), *settings, *of_run)
            config = grid.config(cell, seed, directory)
            runs.append(Run(cell.name, seed, directory, config, arguments))
    return runs


def write_table(
    grid: Grid, runs: Sequence[Run], output: Path, failed: Sequence[Failure]
) -> list[Path]:
    """Compare the finished runs, list the others, and print the table; return the files.

    Tasks that are trained apart are compared separately, in ``tasks/TASK``.
    """
    labels = list(dict.fromkeys(cell.task for cell in grid.cells))
    files = []
    for label in labels:
        cells = [cell for cell in grid.cells if cell.task == label]
        names = [cell.name for cell in cells]
        of_label = [run for run in runs if run.cell in names]
        lost = [failure for failure in failed if failure.run.cell in names]
        if label:
            print(f"{label}:")
        directory = SweepDirectory(output).comparison(label)
        files += _compare(replace(grid, cells=cells), of_label, directory, lost)
    return files


def finished_cells(grid: Grid, runs: Sequence[Run]) -> dict[str, list[Path]]:
    """Return the finished runs of each cell, by its name; a cell may have none."""
    finished: dict[str, list[Path]] = {cell.name: [] for cell in grid.cells}
    for run in runs:
        if run.finished:
            finished[run.cell].append(run.directory)
    return finished


def _compare(
    grid: Grid, runs: Sequence[Run], output: Path, failed: Sequence[Failure]
) -> list[Path]:
    from multitask.reporting.comparison.compare import (  # scipy, matplotlib
        Group,
        compare,
        write_comparison,
    )
    from multitask.reporting.comparison.score_tables import terminal_page

    finished = finished_cells(grid, runs)
    if not any(finished[cell.name] for cell in grid.cells if cell.row == grid.baseline):
        print(f"no table: no run of the baseline {grid.baseline} is finished", flush=True)
        return []
    axes = [asdict(axis) for axis in grid.axes if axis.key != TASKS]
    keys = [axis["key"] for axis in axes]
    groups = [
        Group(cell.row, finished[cell.name], {key: cell.point[key] for key in keys})
        for cell in grid.cells
        if finished[cell.name]
    ]
    try:
        comparison = compare(groups, grid.baseline, axes=axes)
    except UserError as error:
        before = output / "table.md"
        stale = f"; {before} is of an earlier start" if before.is_file() else ""
        raise UserError(f"{error}{stale}") from error
    comparison["failed"] = [
        {"cell": failure.run.cell, "seed": failure.run.seed, "error": failure.reason}
        for failure in failed
    ]
    comparison["notes"] += [
        f"Failed, and not in the table: {failure.run.name}: {failure.reason}" for failure in failed
    ]
    done = sum(map(len, finished.values()))
    if done + len(failed) < len(runs):
        comparison["notes"].append(f"Interrupted: {done} of {len(runs)} runs are finished.")
    files = write_comparison(output, comparison)
    print(terminal_page(comparison))
    for file in files:
        print(f"written: {file}")
    return files


def _check_output(output: Path) -> None:
    if not output.exists():
        return
    if not output.is_dir():
        raise UserError(f"{output} is a file: choose another --output DIR")
    # another process may be about to write grid.yaml: its claim is grid.claim-1
    names = [path.name for path in output.iterdir() if not is_scrap(path)]
    if names and not any(name.startswith("grid.") for name in names):
        raise UserError(f"{output} is not empty and holds no ablation: choose another --output DIR")


def _check_kind(grid: Grid, output: Path) -> None:
    """Raise UserError if an earlier start has probes and the grid trains runs, or vice versa."""
    saved = SweepDirectory(output).grid
    if saved.is_file() and load_extended(saved).value.get("probe", False) != grid.probe:
        held = "trained runs, no probes" if grid.probe else "probes, no trained runs"
        raise UserError(f"{output} holds {held}: choose another --output DIR")


def _check_saved(runs: Sequence[Run]) -> None:
    """Raise UserError if an earlier start trained a cell of this name with another config."""
    for run in runs:
        if not run.files.holds_run:
            continue
        differing = config_differences(run.config, run.directory)
        if differing:
            raise UserError(
                f"cell {run.name}: {run.directory} was trained with another config: {differing}; "
                "take the change back, name the cell otherwise, or choose another --output DIR"
            )


def _interrupt() -> None:
    """End a sweep on SIGTERM, which cluster schedulers send, as on Ctrl-C."""
    raise KeyboardInterrupt
