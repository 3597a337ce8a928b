"""Validate everything a run needs and print the plan, without training."""

import argparse

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_config(parser)
    text = "print the model as a Mermaid flowchart instead; data and encoder are not read"
    parser.add_argument("--diagram", action="store_true", help=text)
    text = "do not take one batch of each task forward and backward"
    parser.add_argument("--no-dry-run", dest="dry_run", action="store_false", help=text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.config import load_config
    from multitask.config.describe_config import diagram

    config = load_config(arguments.config, arguments.overrides)
    if arguments.diagram:
        print(diagram(config))
        return
    from multitask.api.check_config import check_config

    for part in check_config(config, dry_run=arguments.dry_run, say=print):
        print(part)
