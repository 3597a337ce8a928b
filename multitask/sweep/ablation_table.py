"""Make the table of ``ablate``: compare the finished runs of each cell of a grid."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from multitask.sweep.grid import TASKS, Grid
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory, finished_cells
from multitask.utils.errors import UserError

Runs = Sequence[Run]
Failures = Sequence[Failure]


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
    from multitask.reporting.write_sheet import write_sheet

    finished = finished_cells(grid, runs)
    if not any(finished[cell.name] for cell in grid.cells if cell.row == grid.baseline):
        print(f"no table: no run of the baseline {grid.baseline} is finished", flush=True)
        return []
    axes = [axis for axis in grid.axes if axis["key"] != TASKS]
    groups = [
        Group(cell.row, finished[cell.name], {a["key"]: cell.point[a["key"]] for a in axes})
        for cell in grid.cells
        if finished[cell.name]
    ]
    try:
        sheet = compare(groups, grid.baseline, axes=axes, margin=grid.margin)
    except UserError as error:
        before = output / "table.md"
        stale = f"; {before} is of an earlier start" if before.is_file() else ""
        raise UserError(f"{error}{stale}") from error
    sheet["failed"] = [
        {"cell": each.run.cell, "seed": each.run.seed, "error": each.reason} for each in failed
    ]
    sheet["notes"] += [
        f"Failed, and not in the table: {each.run.name}: {each.reason}" for each in failed
    ]
    done = sum(map(len, finished.values()))
    if done + len(failed) < len(runs):
        sheet["notes"].append(f"So far {done} of {len(runs)} runs are finished.")
    files = write_sheet(output, sheet)
    print(terminal_page(sheet))
    for file in files:
        print(f"written: {file}")
    return files
