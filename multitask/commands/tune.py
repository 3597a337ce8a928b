"""Search hyperparameters: train trials with suggested values, and write the best config.

Repeat the command to continue after a kill or an interruption.
"""

import argparse
from pathlib import Path

from multitask.commands.arguments import add_engine, add_output, add_overrides, engine_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("search", metavar="SEARCH", help="YAML file: see docs/tuning.md")
    add_overrides(parser, "config values of every trial, such as data_dir=DIR")
    text = "keep the weights, checkpoints and encoder copy of finished trials"
    parser.add_argument("--keep-weights", action="store_true", help=text)
    add_output(parser, "DIR", "default: runs/tune-NAME-OF-THE-SEARCH-FILE")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.tune_search import tune_space
    from multitask.sweep.search_space import load_search

    space = load_search(arguments.search, arguments.overrides)
    output = arguments.output or Path("runs") / f"tune-{Path(arguments.search).stem}"
    settings = engine_settings(arguments, output)
    keep = arguments.keep_weights
    tune_space(space, settings, engine=arguments.engine, keep_weights=keep, say=print)
