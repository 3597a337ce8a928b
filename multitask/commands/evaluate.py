"""Score a trained run on a labelled split (dev unless told otherwise)."""

import argparse

from multitask.commands.arguments import add_overrides, add_run, add_task


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_overrides(parser)
    add_task(parser, "only this task (default: all)")
    parser.add_argument(
        "--split", choices=("dev", "test"), default="dev", help="labelled split (default: dev)"
    )


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.evaluate_run import evaluate
    from multitask.store.run_directory import RunDirectory

    split = arguments.split
    results = evaluate(arguments.run, arguments.overrides, split=split, task=arguments.task)
    for task, result in results.items():
        for name, (low, high) in result["intervals"].items():
            print(f"{task:8} {name:18} {result['metrics'][name]:.4f}  [{low:.4f}, {high:.4f}]")
    print(f"written: {RunDirectory(arguments.run).evaluation(split)}")
