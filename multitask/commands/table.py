# Tested by tests/configs/test_grid_tasks.py
"""Fill a paper's table with finished runs: its printed values next to ours (docs/glue.md)."""

import argparse
from pathlib import Path

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "YAML file, such as configs/glue/table.yaml"
    parser.add_argument("layout", metavar="LAYOUT", help=text)
    text = "what `ablate` wrote, or a run directory; runs that differ only in their seed are a row"
    shared.add_path(parser, "directories", "DIR", text, nargs="+")
    shared.add_output(parser, "DIR", "also write paper.md, .csv, .tex, .json and figures there")


def run(arguments: argparse.Namespace) -> None:
    from multitask.reporting.layout import load_layout
    from multitask.store.outputs import check_output

    output = arguments.output
    if output is not None:
        check_output(output)
    layout = load_layout(arguments.layout)

    from multitask.reporting.paper_table import paper_table
    from multitask.reporting.sheet_tables import terminal_page
    from multitask.reporting.write_sheet import write_sheet
    from multitask.utils.errors import reading

    with reading(", ".join(map(str, arguments.directories))):  # damaged files lack keys
        rows, notes = _rows(arguments.directories)
        table = paper_table(layout, rows, notes=notes)
    print(terminal_page(table) + "\n")
    if output is None:
        print("--output DIR writes this as Markdown, CSV, LaTeX and JSON, with figures")
    for file in write_sheet(output, table) if output is not None else []:
        print(f"written: {file}")


def _rows(directories: list[Path]) -> tuple[dict[str, list[list[Path]]], list[str]]:
    """Return the runs of each row, and a note per grid with missing runs.

    A row is a cell of a grid, named without its task, or a group of other runs.
    """
    from multitask.reporting.read_runs import group_runs
    from multitask.sweep.grid import load_grid
    from multitask.sweep.sweep_directory import SweepDirectory, finished_cells, plan_runs
    from multitask.utils.errors import UserError

    rows: dict[str, list[list[Path]]] = {}
    notes = []
    sweeps = [path for path in directories if SweepDirectory(path).grid.is_file()]
    for directory in sweeps:
        grid = load_grid(SweepDirectory(directory).grid)
        planned = plan_runs(grid, directory)
        finished = finished_cells(grid, planned)
        count = sum(map(len, finished.values()))
        if count == 0:
            raise UserError(f"{directory}: no run of the grid is finished")
        if count < len(planned):
            notes.append(f"{directory}: {count} of {len(planned)} runs are finished.")
        for cell in grid.cells:
            if finished[cell.name]:
                rows.setdefault(cell.row, []).append(finished[cell.name])
    for group in group_runs([path for path in directories if path not in sweeps]):
        rows.setdefault(group.name, []).append(group.runs)
    return rows, notes
