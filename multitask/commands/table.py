# Tested by tests/configs/test_grid_tasks.py
"""Fill a paper's table with finished runs: its printed values next to ours (docs/glue.md)."""

import argparse
from pathlib import Path

from multitask.commands.arguments import add_output
from multitask.utils.paths import expand_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "layout", metavar="LAYOUT", help="YAML file, such as configs/glue/table.yaml"
    )
    text = (
        "what `ablate` wrote, or a run directory; runs that differ only in their seed make one row"
    )
    parser.add_argument("directories", metavar="DIR", type=expand_home, nargs="+", help=text)
    add_output(parser, "DIR", "also write paper.md, .csv, .tex, .json and figures there")


def run(arguments: argparse.Namespace) -> None:
    from multitask.reporting.layout import load_layout
    from multitask.store.prepare_run import check_no_run

    if arguments.output is not None:
        check_no_run(arguments.output)
    layout = load_layout(arguments.layout)

    from multitask.reporting.figures.dots import draw_paper_table
    from multitask.reporting.paper_table import paper_table
    from multitask.reporting.sheet_tables import paper_text
    from multitask.reporting.write_sheet import check_paper_table, write_paper_table
    from multitask.utils.errors import reading

    if arguments.output is not None:
        check_paper_table(arguments.output)
    with reading(", ".join(map(str, arguments.directories))):  # damaged files lack keys
        rows, notes = _rows(arguments.directories)
        table = paper_table(layout, rows, notes=notes)
    print(paper_text(table) + "\n")
    if arguments.output is None:
        print("--output DIR writes this as Markdown, CSV, LaTeX and JSON, with figures")
        return
    check_no_run(arguments.output)  # again: comparing takes a while
    files = write_paper_table(arguments.output, table)
    for file in [*files, *draw_paper_table(arguments.output, table)]:
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
