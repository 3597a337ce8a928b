"""Train every cell of a grid with every seed and compare them in one table.

Repeat the command to continue after a kill or an interruption. Several processes or machines may
work on one output directory.
"""

import argparse
from pathlib import Path

from multitask.commands.arguments import add_engine, add_output, add_overrides, engine_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("grid", metavar="GRID", help="YAML file: see docs/ablations.md")
    add_overrides(parser, "config values of every cell, such as data_dir=DIR")
    text = "keep each run's weights, checkpoints and encoder copy"
    parser.add_argument("--keep-weights", action="store_true", help=text)
    add_output(parser, "DIR", "default: runs/NAME-OF-THE-GRID-FILE")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.train_grid import train_grid
    from multitask.sweep.grid import load_grid

    grid = load_grid(arguments.grid, arguments.overrides)
    output = arguments.output or Path("runs") / Path(arguments.grid).stem
    settings = engine_settings(arguments, output)
    train_grid(grid, settings, engine=arguments.engine, keep_weights=arguments.keep_weights)
