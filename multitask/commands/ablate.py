"""Train every cell of a grid with every seed and compare them in one table.

Repeat the command to continue after a kill or an interruption. Several processes or machines may
work on one output directory.
"""

import argparse
from functools import partial
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
    from multitask.sweep.grid import load_grid
    from multitask.sweep.pool import train_all
    from multitask.sweep.run_sweep import sweep
    from multitask.utils.errors import UserError

    grid = load_grid(arguments.grid, arguments.overrides)
    output = arguments.output or Path("runs") / Path(arguments.grid).stem
    settings = engine_settings(arguments, output)
    if not grid.probe:
        keep = arguments.keep_weights
        train = partial(train_all, engine=arguments.engine, settings=settings, keep_weights=keep)
        sweep(grid, output, train, jobs=settings.jobs)
        return
    refused = {
        "--jobs": settings.jobs > 1,
        "--engine": arguments.engine != "local",
        "--cpus-per-run": settings.cpus is not None,
        "--gpus-per-run": settings.gpus is not None,
        "--keep-weights": arguments.keep_weights,
    }
    for option, given in refused.items():
        if given:
            message = "a probe grid is one process and keeps no weights: leave it out"
            raise UserError(f"{option}: {message}")
    from multitask.sweep.probe_grid import probe_all

    sweep(grid, output, partial(probe_all, grid, output), jobs=0)
