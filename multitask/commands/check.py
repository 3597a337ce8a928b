"""Validate everything a run needs and print the plan; nothing is trained or written."""

import argparse
from pathlib import Path

from multitask.commands.arguments import add_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    text = "do not take one batch of each task forward and backward"
    parser.add_argument("--no-dry-run", dest="dry_run", action="store_false", help=text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.config import load_config

    config = load_config(arguments.config, arguments.overrides)

    from multitask.config.prepare_run_directory import check_directory
    from multitask.training.describe_plan import describe_plan
    from multitask.training.dry_run import dry_run
    from multitask.training.setup import set_up
    from multitask.utils.device import pick_device
    from multitask.utils.errors import UserError

    with config.errors_at(("device",)):
        device = pick_device(config.device)
    plan = set_up(config, device)
    print("\n".join(describe_plan(plan)))
    if arguments.dry_run:
        print("\none batch of each task, forward and backward")
        print("\n".join(f"  {line}" for line in dry_run(plan)))
    try:
        check_directory(Path(config.output_dir), resume=False, overwrite=False)
    except UserError as error:
        print(f"warning: {error}")
