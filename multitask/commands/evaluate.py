"""Score a trained run on a labelled split (dev unless told otherwise)."""

import argparse

from multitask.commands.arguments import add_overrides, add_run, add_task, check_task


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_overrides(parser)
    add_task(parser, "only this task (default: all)")
    parser.add_argument(
        "--split", choices=("dev", "test"), default="dev", help="labelled split (default: dev)"
    )


def run(arguments: argparse.Namespace) -> None:
    from multitask.config import load_run_config
    from multitask.utils.errors import UserError

    config = load_run_config(arguments.run, arguments.overrides)
    if arguments.task is not None:
        check_task(arguments.run, config, arguments.task)

    from multitask.inference.load_run import TrainedRun
    from multitask.training.report_json import dev_results

    trained = TrainedRun(arguments.run, config)
    results = {}
    for task in trained.tasks:
        if arguments.task not in (None, task):
            continue
        if arguments.split not in trained.config.tasks[task].data.scored:
            continue
        split = trained.load_split(task, arguments.split)
        if split.rows.labels is None:
            print(f"{task}: {split.rows.source} has no labels; see: predict {arguments.run}")
            continue
        scores = trained.score_split(task, split)
        measured, intervals = dev_results(scores, split.rows, trained.readers[task])
        results[task] = {"metrics": measured, "intervals": intervals}
        for name, (low, high) in intervals.items():
            print(f"{task:8} {name:18} {measured[name]:.4f}  [{low:.4f}, {high:.4f}]")
    if not results:
        raise UserError(f"{arguments.run}: no task has a labelled {arguments.split} split")
    trained.check_unchanged()
    file = trained.files.write_json(trained.files.evaluation(arguments.split), results)
    print(f"written: {file}")
