"""Compare finished runs: one table of dev scores, with differences to a baseline."""

import argparse

from multitask.commands.arguments import add_output
from multitask.utils.paths import expand_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "run directory; runs that differ only in their seed make one row"
    parser.add_argument("runs", metavar="RUN", type=expand_home, nargs="+", help=text)
    text = "row that the others are compared with, as the table names it (default: the first)"
    parser.add_argument("--baseline", metavar="NAME", help=text)
    files = "report.html, table.md, .csv and .tex, comparison.json and figures"
    add_output(parser, "DIR", f"also write {files} there")


def run(arguments: argparse.Namespace) -> None:
    from multitask.config.prepare_run_directory import check_no_run
    from multitask.reporting.comparison.compare import compare, group_runs, write_comparison
    from multitask.reporting.comparison.replaced_files import check_comparison
    from multitask.reporting.comparison.score_tables import terminal_page
    from multitask.utils.errors import reading

    if arguments.output is not None:
        check_no_run(arguments.output)
        check_comparison(arguments.output)
    with reading(", ".join(map(str, arguments.runs))):  # damaged files lack keys
        groups = group_runs(arguments.runs)
        comparison = compare(groups, arguments.baseline or groups[0].name)
        page = terminal_page(comparison)
    print(page + "\n")
    if arguments.output is None:
        print("--output DIR writes this as HTML, Markdown, CSV, LaTeX and JSON, with figures")
    else:
        check_no_run(arguments.output)  # again: comparing takes a while
        for file in write_comparison(arguments.output, comparison):
            print(f"written: {file}")
