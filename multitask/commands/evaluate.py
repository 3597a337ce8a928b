"""Score a trained run on a labelled split (dev unless told otherwise)."""

import argparse

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_run(parser)
    shared.add_overrides(parser)
    shared.add_task(parser, "only this task (default: all)")
    text = "labelled split (default: dev)"
    parser.add_argument("--split", choices=("dev", "test"), default="dev", help=text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.evaluate_run import evaluate
    from multitask.store.run_directory import RunDirectory

    results = evaluate(**vars(arguments))
    for task, result in results.items():
        for name, (low, high) in result["intervals"].items():
            print(f"{task:8} {name:18} {result['metrics'][name]:.4f}  [{low:.4f}, {high:.4f}]")
    print(f"written: {RunDirectory(arguments.run).evaluation(arguments.split)}")
