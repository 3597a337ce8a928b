"""Validate everything a run needs and print the plan; nothing is trained or written."""

import argparse

from multitask.commands.arguments import add_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.check_config import check_config
    from multitask.config import load_config

    print(check_config(load_config(arguments.config, arguments.overrides)))
