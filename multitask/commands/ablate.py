"""Train every cell of a grid with every seed and compare them in one table.

The same command goes on where an earlier start, killed or interrupted, has left off; several
processes or machines may work on one output directory.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("grid", metavar="GRID", help="YAML file: see docs/ablations.md")
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        help="config values of every cell, such as data_dir=DIR",
    )
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="runs at once (default 1)")
    parser.add_argument(
        "--keep-weights",
        action="store_true",
        help="keep each run's weights, checkpoints and encoder copy",
    )
    parser.add_argument(
        "--output", metavar="DIR", type=Path, help="default: runs/NAME-OF-THE-GRID-FILE"
    )


def run(arguments: argparse.Namespace) -> None:
    from multitask.errors import UserError
    from multitask.sweep.grid import load_grid
    from multitask.sweep.sweep import sweep

    if arguments.jobs < 1:
        raise UserError(f"--jobs: expected a whole number ≥ 1, not {arguments.jobs}")
    grid = load_grid(arguments.grid, arguments.overrides)
    output = arguments.output or Path("runs") / Path(arguments.grid).stem
    sweep(grid, output, jobs=arguments.jobs, keep_weights=arguments.keep_weights)
