"""Train the tasks of a YAML file; the word `train` may be left out."""

import argparse
import time

from multitask.commands.arguments import add_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    group = parser.add_mutually_exclusive_group()
    text = "go on from the last checkpoint in output_dir; the same command otherwise"
    group.add_argument("--resume", action="store_true", help=text)
    group.add_argument("--overwrite", action="store_true", help="replace the run in output_dir")
    text = "a first result in minutes: few rows, 4 epochs; the report says `trial` (docs/cs224n.md)"
    parser.add_argument("--try", dest="trial", action="store_true", help=text)
    text = "remove weights, checkpoints and the encoder copy at the end, as `ablate` does"
    parser.add_argument("--discard-weights", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> None:
    began = time.perf_counter()
    from multitask.api.train_model import train_config
    from multitask.config import load_config

    train_config(
        load_config(arguments.config, arguments.overrides, trial=arguments.trial),
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        discard=arguments.discard_weights,
        began=began,
    )
