"""Train every cell of a grid with every seed and compare them in one table.

Repeat the command to continue after a kill or an interruption. Several processes or machines may
work on one output directory.
"""

import argparse
from functools import partial
from pathlib import Path

from multitask.commands.arguments import add_output, add_overrides, check_number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("grid", metavar="GRID", help="YAML file: see docs/ablations.md")
    add_overrides(parser, "config values of every cell, such as data_dir=DIR")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="runs at once (default 1)")
    text = "keep each run's weights, checkpoints and encoder copy"
    parser.add_argument("--keep-weights", action="store_true", help=text)
    add_output(parser, "DIR", "default: runs/NAME-OF-THE-GRID-FILE")


def run(arguments: argparse.Namespace) -> None:
    from multitask.sweep.grid import load_grid
    from multitask.sweep.pool import train_all
    from multitask.sweep.run_sweep import sweep
    from multitask.utils.errors import UserError

    jobs, keep_weights = arguments.jobs, arguments.keep_weights
    check_number("--jobs", jobs)
    grid = load_grid(arguments.grid, arguments.overrides)
    output = arguments.output or Path("runs") / Path(arguments.grid).stem
    if not grid.probe:
        sweep(grid, output, partial(train_all, slots=jobs, keep_weights=keep_weights), jobs=jobs)
        return
    if jobs > 1 or keep_weights:
        option = "--jobs" if jobs > 1 else "--keep-weights"
        raise UserError(f"{option}: a probe grid is one process and keeps no weights: leave it out")
    from multitask.sweep.probe_grid import probe_all

    sweep(grid, output, partial(probe_all, grid, output), jobs=0)
