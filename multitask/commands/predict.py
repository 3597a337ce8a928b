"""Write a trained run's predictions for dev and test, or for your own texts.

The predictions of several runs are averaged over the tasks they share (docs/comparing.md).
"""

import argparse
import json
from pathlib import Path

from multitask.commands import arguments as shared
from multitask.utils.errors import UserError, check_regular, no_file
from multitask.utils.paths import expand_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_runs(parser, "for the average of all")
    shared.add_task(parser, "task for --file")
    parser.add_argument(
        "--file",
        metavar="F",
        type=expand_home,
        help="your own texts: .txt with one per line (a pair separated by a tab; the id is the "
        "line's number from 0), or a csv, tsv, jsonl or parquet file with the task's columns",
    )
    shared.add_output(
        parser,
        "O",
        "JSON lines for --file (default: the terminal); for several runs without --file, the "
        "directory of ensemble.json and predictions/",
    )


def run(arguments: argparse.Namespace) -> None:

    runs, overrides = shared.runs_and_overrides(arguments)
    if (arguments.task is None) != (arguments.file is None):
        raise UserError("predict: --task and --file go together")
    if arguments.file is not None:
        _predict_file(runs, overrides, arguments)
    elif len(runs) > 1:
        _ensemble(runs, overrides, arguments.output)
    elif arguments.output is not None:
        raise UserError(
            "predict: --output is for --file and for several runs; the run's files are in "
            "RUN/predictions"
        )
    else:
        _splits(arguments.run, overrides)


def _splits(run_dir: Path, overrides: list[str]) -> None:
    from multitask.config import load_run_config

    config = load_run_config(run_dir, overrides)

    from multitask.inference.load_run import TrainedRun
    from multitask.inference.write_predictions import write_predictions

    trained = TrainedRun(run_dir, config)
    for task in trained.tasks:
        entry = trained.config.tasks[task]
        for split in entry.data.scored:
            made = trained.load_split(task, split)
            scores = trained.score_split(task, made)
            trained.check_unchanged()
            written = write_predictions(
                trained.files,
                task,
                split,
                rows=made.rows,
                scores=scores,
                reader=trained.readers[task],
                entry=entry,
            )
            for file in written:
                print(f"written: {file}")


def _ensemble(runs: list[Path], overrides: list[str], output: Path | None) -> None:
    from multitask.inference.ensemble import check_output, ensemble, write_ensemble
    from multitask.reporting.comparison.gains import gains_table

    if output is not None:
        check_output(output)
    averaged = ensemble(runs, overrides)
    print("\n".join([gains_table(averaged.gains), *averaged.gains["notes"]]) + "\n")
    if output is None:
        print("--output DIR writes this as JSON, with the averaged predictions of dev and test")
    else:
        for file in write_ensemble(output, averaged):
            print(f"written: {file}")


def _predict_file(runs: list[Path], overrides: list[str], arguments: argparse.Namespace) -> None:
    from multitask.config import load_run_config

    task, file, output = arguments.task, arguments.file, arguments.output
    if output is not None:
        _check_output(output, file)
    configs = [load_run_config(run, overrides) for run in runs]
    for run, config in zip(runs, configs, strict=True):
        shared.check_task(run, config, task)
    if not file.is_file():
        raise UserError(no_file(file))

    from multitask.inference.ensemble import predict_texts
    from multitask.inference.load_run import TrainedRun
    from multitask.utils.files import write_text

    trained = (TrainedRun(run, config) for run, config in zip(runs, configs, strict=True))
    rows, predictions = predict_texts(trained, task, file)
    lines = [
        json.dumps({"id": row, "texts": text, **result}, ensure_ascii=False)
        for row, text, result in zip(rows.ids, rows.texts, predictions, strict=True)
    ]
    if output is None:
        print("\n".join(lines))
    else:
        _check_output(output, file)  # again: predicting takes a while
        write_text(output, "\n".join(lines) + "\n")
        print(f"written: {output}")


def _check_output(output: Path, file: Path) -> None:
    """Raise UserError if predictions would overwrite something else."""
    from multitask.config.run_directory import open_run

    run = open_run(output.parent.parent)
    if output.is_dir():
        raise UserError(f"{output} is a directory: name a file by --output")
    if output.parent == run.predictions and run.holds_run:
        raise UserError(f"{output} is where a run has its predictions: choose another --output")
    check_regular(output)
    if not output.exists():
        return
    with output.open("rb") as opened:
        first = opened.readline()
    try:
        predicted = not first or {"texts", "prediction"} <= set(json.loads(first))
    except (ValueError, TypeError, RecursionError):
        predicted = False
    if not predicted or (file.is_file() and output.samefile(file)):
        raise UserError(f"{output} exists and holds no predictions: choose another --output")
