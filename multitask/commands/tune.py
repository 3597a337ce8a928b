"""Search hyperparameters: train trials, and write the best config.

Repeat the command to continue after a kill or an interruption.
"""

import argparse

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("search", metavar="SEARCH", help="YAML file: see docs/tuning.md")
    shared.add_sweep(parser, "trial", "runs/tune-NAME-OF-THE-SEARCH-FILE")


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.sweeps import tune

    tune(**vars(arguments), say=print)
