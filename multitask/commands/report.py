"""Compare finished runs: one table of dev scores, with differences to a baseline."""

import argparse

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "run directory; runs that differ only in their seed make one row"
    shared.add_path(parser, "runs", "RUN", text, nargs="+")
    text = "row that the others are compared with, as the table names it (default: the first)"
    parser.add_argument("--baseline", metavar="NAME", help=text)
    files = "report.html, table.md, .csv and .tex, comparison.json and figures"
    shared.add_output(parser, "DIR", f"also write {files} there")


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.compare_runs import report

    made = report(**vars(arguments))
    print(f"{made}\n")
    if arguments.output is None:
        print("--output DIR writes this as HTML, Markdown, CSV, LaTeX and JSON, with figures")
    for file in made.files:
        print(f"written: {file}")
