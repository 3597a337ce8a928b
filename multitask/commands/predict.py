"""Write a trained run's predictions for dev and test, or for your own texts.

The predictions of several runs are averaged over the tasks they share (docs/comparing.md).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from multitask.commands import arguments as shared
from multitask.utils.errors import UserError, check_regular, no_file
from multitask.utils.paths import expand_home

if TYPE_CHECKING:
    from multitask.config import Config
    from multitask.tasks.base import Answer

SHOWN = 60  # characters of a text in a terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_runs(parser, "for the average of all")
    shared.add_task(
        parser,
        "task for --file, if the run has several; for --text the default is all that take it",
    )
    parser.add_argument(
        "--file",
        metavar="F",
        type=expand_home,
        help="your own texts: .txt with one per line (a pair separated by a tab; the id is the "
        "line's number from 0), or a csv, tsv, jsonl or parquet file with the task's columns",
    )
    parser.add_argument("--text", metavar="T", nargs="+", help="one text, or the two of a pair")
    text = "make all files again; otherwise only those that are missing or damaged"
    parser.add_argument("--again", action="store_true", help=text)
    shared.add_output(
        parser,
        "O",
        "JSON lines for --file or --text (default: print them; a terminal shows one readable line "
        "per row); for several runs without these, the directory of ensemble.json and predictions/",
    )


def run(arguments: argparse.Namespace) -> None:

    runs, overrides = shared.runs_and_overrides(arguments)
    if arguments.file is not None and arguments.text is not None:
        raise UserError("predict: give --file or --text, not both")
    own = arguments.file is not None or arguments.text is not None
    if arguments.again and (own or len(runs) > 1):
        raise UserError("predict: --again is for the files of one run: leave it out")
    if arguments.task is not None and not own:
        raise UserError("predict: --task is for --file and --text: add one of them")
    if own:
        _predict_own(runs, overrides, arguments)
    elif len(runs) > 1:
        _ensemble(runs, overrides, arguments.output)
    elif arguments.output is not None:
        raise UserError(
            "predict: --output is for --file, --text and for several runs; the run's files are in "
            "RUN/predictions"
        )
    else:
        _splits(arguments.run, overrides, again=arguments.again)


def _splits(run_dir: Path, overrides: list[str], *, again: bool) -> None:
    """Write the files of all splits, without those that are intact."""
    from multitask.store.run_directory import RunDirectory, load_run_config

    config = load_run_config(run_dir, overrides)

    from multitask.inference.write_predictions import prediction_files, write_predictions

    _warn_of_trial(config.trial)
    directory = RunDirectory(run_dir)
    # other values may give other predictions, and a run that trains on has other weights
    again = again or bool(overrides) or not directory.finished
    wanted: dict[str, list[str]] = {}
    for task, entry in config.tasks.items():
        for split in entry.data.scored:
            files = prediction_files(directory, task, split, entry)
            if not again and all(map(directory.is_intact, files)):
                print("\n".join(f"intact: {file}" for file in files))
            else:
                wanted.setdefault(task, []).append(split)
    if not wanted:
        print("nothing to do: --again makes the files anew; --text and --file take new texts")
        return

    from multitask.inference.load_run import TrainedRun

    trained = TrainedRun(run_dir, config)
    for task in trained.tasks:
        entry = trained.config.tasks[task]
        for split in wanted.get(task, []):
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


def _warn_of_trial(trial: bool) -> None:
    from multitask.utils.errors import warn

    if trial:
        warn("a trial (--try): its files have few of the test rows: do not hand them in")


def _ensemble(runs: list[Path], overrides: list[str], output: Path | None) -> None:
    from multitask.inference.ensemble import check_output, ensemble, write_ensemble
    from multitask.reporting.gains import gains_table
    from multitask.store.run_directory import RunDirectory

    if output is not None:
        check_output(output)
    averaged = ensemble(runs, overrides)
    _warn_of_trial(RunDirectory(runs[0]).load_report().trial)  # all have the same rows
    print("\n".join([gains_table(averaged.gains), *averaged.gains["notes"]]) + "\n")
    if output is None:
        print("--output DIR writes this as JSON, with the averaged predictions of dev and test")
    else:
        for file in write_ensemble(output, averaged):
            print(f"written: {file}")


def _predict_own(runs: list[Path], overrides: list[str], arguments: argparse.Namespace) -> None:
    from multitask.config.checks import check_task
    from multitask.store.run_directory import load_run_config

    file, output = arguments.file, arguments.output
    if output is not None:
        _check_output(output, file)
    configs = [load_run_config(run, overrides) for run in runs]
    if arguments.task is None and arguments.text is not None and len(configs[0].tasks) > 1:
        tasks = _tasks_that_take(arguments.text, runs, configs)
    else:
        tasks = [arguments.task or shared.only_task(runs[0], configs[0])]
    for run, config in zip(runs, configs, strict=True):
        for task in tasks:
            check_task(run, config, task)
    if file is not None and not file.is_file():
        raise UserError(no_file(file))

    from multitask.inference.ensemble import predict_texts
    from multitask.inference.load_run import TrainedRun
    from multitask.store.files import write_text
    from multitask.tasks.base import RowLabels
    from multitask.tasks.records import with_both_scores

    lines = []
    for task in tasks:
        trained = (TrainedRun(run, config) for run, config in zip(runs, configs, strict=True))
        rows, predictions, reader = predict_texts(trained, task, file or tuple(arguments.text))
        name = {"task": task} if len(tasks) > 1 else {}
        if output is None and sys.stdout.isatty():
            one_of_two = isinstance(reader.task_type, RowLabels) and len(reader.names) == 2
            if one_of_two and all(len(each["scores"]) == 1 for each in predictions):
                predictions = with_both_scores(predictions)
            answers = (reader.task_type.answer(record, reader) for record in predictions)
            words = map(_in_words, answers, rows.texts)
            lines += [f"{task}: {line}" if name else line for line in words]
        else:
            lines += [
                json.dumps({**name, "id": row, "texts": text, **result}, ensure_ascii=False)
                for row, text, result in zip(rows.ids, rows.texts, predictions, strict=True)
            ]
    if output is None:
        print("\n".join(lines))
    else:
        _check_output(output, file)  # again: predicting takes a while
        write_text(output, "\n".join(lines) + "\n")
        print(f"written: {output}")


def _tasks_that_take(
    texts: Sequence[str], runs: Sequence[Path], configs: Sequence["Config"]
) -> list[str]:
    """Return the tasks of all runs that predict from so many texts. Raises UserError for none."""
    from multitask.config.registry import head_type
    from multitask.data.inputs.base import input_of
    from multitask.tasks.base import RowLabels, WordLabels

    row = texts[0] if len(texts) == 1 else texts
    fitting = []
    for task, entry in configs[0].tasks.items():
        kind = head_type(entry.head.name)
        predicts = isinstance(kind, RowLabels if len(runs) > 1 else RowLabels | WordLabels)
        if predicts and input_of(entry).row_of(row) and all(task in c.tasks for c in configs):
            fitting.append(task)
    if not fitting:
        known = ", ".join(f"{t} ({input_of(e).items})" for t, e in configs[0].tasks.items())
        raise UserError(f"{runs[0]}: no task takes {len(texts)} texts: {known}")
    return fitting


def _in_words(answer: "Answer", texts: Sequence[str]) -> str:
    """Write a prediction for a reader: ``4 (0.62): A film with heart .``."""
    chosen = [chance for _, chance, taken in answer.get("shares", ()) if taken]
    chance = f" ({chosen[0]:.2f})" if len(chosen) == 1 else ""
    words = " | ".join(" ".join(text.split()) for text in texts)
    shown = words if len(words) <= SHOWN else f"{words[: SHOWN - 3]}..."
    return f"{answer['prediction']}{chance}: {shown}"


def _check_output(output: Path, file: Path | None) -> None:
    """Raise UserError if predictions would overwrite something else."""
    from multitask.store.run_directory import open_run

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
    if not predicted or (file is not None and file.is_file() and output.samefile(file)):
        raise UserError(f"{output} exists and holds no predictions: choose another --output")
