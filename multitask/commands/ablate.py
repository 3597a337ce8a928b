"""Train every cell of a grid with every seed and compare them in one table.

Repeat the command to continue after a kill or an interruption. Several processes or machines may
work on one output directory.
"""

import argparse

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("grid", metavar="GRID", help="YAML file: see docs/ablations.md")
    shared.add_sweep(parser, "cell", "runs/NAME-OF-THE-GRID-FILE")


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.sweeps import ablate

    ablate(**vars(arguments))
