"""The arguments of commands that take a run or an encoder."""

import argparse

from multitask.utils.names import PACKAGED_ENCODER


def add_source(parser: argparse.ArgumentParser) -> None:
    """RUN: a run directory or an encoder."""
    parser.add_argument(
        "run",
        metavar="RUN",
        help=f"run directory, or an encoder: a directory, a hub id or {PACKAGED_ENCODER}",
    )


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """key=value ...: values of the run to change."""
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        help="values of the run to change, such as data_dir=DIR",
    )
