"""Validate everything a run needs and print the plan; nothing is trained or written."""

import argparse

from multitask.commands.arguments import add_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    text = "do not take one batch of each task forward and backward"
    parser.add_argument("--no-dry-run", dest="dry_run", action="store_false", help=text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.check_config import check_config
    from multitask.config import load_config

    config = load_config(arguments.config, arguments.overrides)
    for part in check_config(config, dry_run=arguments.dry_run, say=print):
        print(part)
