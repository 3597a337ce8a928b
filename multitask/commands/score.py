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
    text = "instead of FILE: score and rank a folder or zip archive per group"
    shared.add_path(parser, "--submissions", "DIR", text)
    text = "with --submissions: also write ranking.html, .csv and .json there"
    shared.add_output(parser, "DIR", text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.config import Config
    from multitask.config.yaml_merge import is_override
    from multitask.utils.errors import UserError

    overrides = [
        word
        for word in arguments.given
        if is_override(word) and word.partition("=")[0].partition(".")[0] in Config.model_fields
    ]
    files = [word for word in arguments.given if word not in overrides]
    config, split = arguments.config, arguments.split
    if arguments.submissions is not None:
        if files or arguments.against or arguments.json is not None:
            raise UserError("score: --submissions takes no FILE, --against or --json: leave it out")

        from multitask.api.score_files import score_submissions

        where, output = arguments.submissions, arguments.output
        ranked = score_submissions(config, where, overrides, split=split, output=output)
        print(ranked)
        for file in ranked.files:
            print(f"written: {file}")
        return
    if arguments.output is not None:
        raise UserError("score: --output is for --submissions: leave it out")

    from multitask.api.score_files import score

    against, results = arguments.against, arguments.json
    print(score(config, files, overrides, split=split, against=against, json=results))
    if results is not None:
        print(f"written: {results}")
