"""Validate everything a run needs and print the plan; nothing is trained or written."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="YAML file, such as configs/demo.yaml")
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", help="values that replace the file's"
    )


def run(arguments: argparse.Namespace) -> None:
    from multitask.config import load_config

    config = load_config(arguments.config, arguments.overrides)

    from multitask.plan import describe_plan
    from multitask.prepare import prepare

    print("\n".join(describe_plan(prepare(config))))
