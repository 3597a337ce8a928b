"""Score sentence vectors on STS12 to STS16, STS-B and SICK-R (docs/sts.md).

Writes sts.md and sts.json; --layers also the scores of every layer and fixed pooling, with figures.
"""

import argparse

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_source(parser)
    shared.add_overrides(parser)
    shared.add_path(parser, "--data", "DIR", "directory with the suites", required=True)
    text = "file to read as STS-B, such as the course's sts-dev.csv"
    shared.add_path(parser, "--stsb", "FILE", f"{text} (default: its test split in DIR)")
    text = "the run's task whose weights, adapter and pooling count"
    shared.add_task(parser, f"{text} (default: the first that compares two sentences)")
    shared.add_pooling(parser, ": cls, mean, ... (default: the task's; mean for an encoder)")
    shared.add_dim(parser)
    text = "also score every layer under each fixed pooling"
    parser.add_argument("--layers", action="store_true", help=text)
    text = "layers.json of other encoders: draw their curves too (with --layers)"
    shared.add_path(parser, "--with", "FILE", text, dest="others", nargs="+", default=[])
    shared.add_output(parser, "DIR", "default: RUN/scores; ./scores for an encoder")


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.score_vectors import sts

    for line in sts(**vars(arguments)):
        print(line)
