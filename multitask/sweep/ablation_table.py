"""Make the table of ``ablate``: compare the finished runs of each cell of a grid."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from multitask.reporting.sheet import Axis, check_comparison, compared_rows
from multitask.sweep.grid import TASKS, Grid
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory, finished_cells
from multitask.utils.errors import UserError

Runs = Sequence[Run]
Failures = Sequence[Failure]


def check_tables(grid: Grid, output: Path) -> None:
    """Raise UserError if the comparisons would replace files of another program or another grid."""
    for label in dict.fromkeys(cell.task for cell in grid.cells):
        directory = SweepDirectory(output).comparison(label)
        check_comparison(directory)
        rows = {cell.row for cell in grid.cells if cell.task == label}
        compared = compared_rows(directory)
        if compared and rows.isdisjoint(compared):
            raise UserError(
                f"{directory} has a table of other rows, such as {compared[0]}, and none of this "
                "grid: choose another --output DIR"
            )


def write_table(grid: Grid, runs: Runs, output: Path, failed: Failures) -> list[Path]:
    """Compare the finished runs, list the others, and print the table; return the files.

    Tasks that are trained apart are compared separately, in ``tasks/TASK``.
    """
    files = []
    for label in dict.fromkeys(cell.task for cell in grid.cells):
        cells = [cell for cell in grid.cells if cell.task == label]
        names = [cell.name for cell in cells]
        of_label = [run for run in runs if run.cell in names]
        lost = [failure for failure in failed if failure.run.cell in names]
        if label:
            print(f"{label}:")
        directory = SweepDirectory(output).comparison(label)
        files += _compare(replace(grid, cells=cells), of_label, directory, lost)
    return files


def _compare(grid: Grid, runs: Runs, output: Path, failed: Failures) -> list[Path]:
    # here, as they import scipy and matplotlib
    from multitask.reporting.compare import compare
    from multitask.reporting.read_runs import Group
    from multitask.reporting.sheet_tables import terminal_page
    from multitask.reporting.write_sheet import write_comparison

    finished = finished_cells(grid, runs)
    if not any(finished[cell.name] for cell in grid.cells if cell.row == grid.baseline):
        print(f"no table: no run of the baseline {grid.baseline} is finished", flush=True)
        return []
    axes: list[Axis] = [
        {"key": axis.key, "labels": axis.labels, "values": axis.values}
        for axis in grid.axes
        if axis.key != TASKS
    ]
    keys = [axis["key"] for axis in axes]
    groups = [
        Group(cell.row, finished[cell.name], {key: cell.point[key] for key in keys})
        for cell in grid.cells
        if finished[cell.name]
    ]
    try:
        comparison = compare(groups, grid.baseline, axes=axes, margin=grid.margin)
    except UserError as error:
        before = output / "table.md"
        stale = f"; {before} is of an earlier start" if before.is_file() else ""
        raise UserError(f"{error}{stale}") from error
    comparison["failed"] = []
    for failure in failed:
        run, reason = failure.run, failure.reason
        comparison["failed"].append({"cell": run.cell, "seed": run.seed, "error": reason})
        comparison["notes"].append(f"Failed, and not in the table: {run.name}: {reason}")
    done = sum(map(len, finished.values()))
    if done + len(failed) < len(runs):
        comparison["notes"].append(f"So far {done} of {len(runs)} runs are finished.")
    files = write_comparison(output, comparison)
    print(terminal_page(comparison))
    for file in files:
        print(f"written: {file}")
    return files
