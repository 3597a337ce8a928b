"""Score prediction files of any program on the labelled rows of a config (docs/cs224n.md).

A file has a header and a row per prediction: `ID , VALUE`, `ID<tab>VALUE` or CSV.
"""

import argparse

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="YAML file with the tasks and their data")
    text = "prediction files, each named as the task's `course_file.name`, such as "
    text += "sst-dev-output.csv, or given as TASK=FILE; values that replace the config's"
    parser.add_argument("given", metavar="FILE|key=value", nargs="*", help=text)
    text = "labelled split (default: dev)"
    parser.add_argument("--split", choices=("dev", "test"), default="dev", help=text)
    text = "also print the paired difference to a run, or to another file; may be repeated"
    parser.add_argument("--against", metavar="RUN|FILE", action="append", default=[], help=text)
    text = "also write the scores there as Gradescope's results.json, even if a file is damaged"
    shared.add_path(parser, "--json", "FILE", text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.score_files import score
    from multitask.config import Config
    from multitask.config.yaml_merge import is_override

    overrides = [
        word
        for word in arguments.given
        if is_override(word) and word.partition("=")[0].partition(".")[0] in Config.model_fields
    ]
    files = [word for word in arguments.given if word not in overrides]
    print(
        score(
            arguments.config,
            files,
            overrides,
            split=arguments.split,
            against=arguments.against,
            json=arguments.json,
        )
    )
    if arguments.json is not None:
        print(f"written: {arguments.json}")
