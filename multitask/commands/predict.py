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
from multitask.store.files import write_text
from multitask.utils.errors import UserError

if TYPE_CHECKING:
    from multitask.tasks.base import Answer

SHOWN = 60  # characters of a text in a terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_runs(parser, "for the average of all")
    text = "task for --file, if the run has several; for --text the default is all that take it"
    shared.add_task(parser, text)
    text = (
        "your own texts: .txt with one per line (a pair separated by a tab; the id is the line's "
    )
    text += "number from 0), or a csv, tsv, jsonl or parquet file with the task's columns"
    shared.add_path(parser, "--file", "F", text)
    text = "one text, or the two of a pair"
    parser.add_argument("--text", metavar="T", nargs="+", action="extend", help=text)
    text = "make all files again; otherwise only those that are missing or damaged"
    parser.add_argument("--again", action="store_true", help=text)
    text = (
        "also pack the course's files (`course_file`) of one run as an archive to hand in; refused "
    )
    text += "for a trial and where ids are missing"
    shared.add_path(parser, "--zip", "FILE", text)
    text = "JSON lines for --file or --text (default: print them; a terminal shows one readable "
    text += "line per row); for several runs without these, the directory of ensemble.json and "
    shared.add_output(parser, "O", f"{text}predictions/")


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.predict_run import average_runs, predict_splits, zip_course_files

    runs, overrides = shared.runs_and_overrides(arguments)
    if arguments.file is not None and arguments.text is not None:
        raise UserError("predict: give --file or --text, not both")
    own = arguments.file is not None or arguments.text is not None
    for option, given, needed in (
        ("--again", arguments.again and (own or len(runs) > 1), "the files of one run"),
        ("--zip", arguments.zip is not None and (own or len(runs) > 1), "the files of one run"),
        ("--task", arguments.task is not None and not own, "--file and --text"),
        (
            "--output",
            arguments.output is not None and not own and len(runs) == 1,
            "--file, --text and several runs; the run's files are in RUN/predictions",
        ),
    ):
        if given:
            raise UserError(f"predict: {option} is for {needed}: leave it out")
    if own:
        _predict_own(runs, overrides, arguments)
        return
    if arguments.zip is not None:
        lines = zip_course_files(runs[0], overrides, arguments.zip, again=arguments.again)
    elif len(runs) == 1:
        lines = predict_splits(runs[0], overrides, again=arguments.again)
    else:
        lines = average_runs(runs, overrides, arguments.output)
    for line in lines:
        print(line)


def _predict_own(runs: list[Path], overrides: list[str], arguments: argparse.Namespace) -> None:
    from multitask.api.predict_run import predict_texts
    from multitask.tasks.base import RowLabels
    from multitask.tasks.records import with_both_scores

    file, output = arguments.file, arguments.output
    if output is not None:
        _check_output(output, file)
    given = file or tuple(arguments.text)
    by_task = predict_texts(runs, overrides, given, task=arguments.task)
    lines = []
    for task, (rows, predictions, reader) in by_task.items():
        name = {"task": task} if len(by_task) > 1 else {}
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
    if output.parent == run.predictions and run.holds_run:
        raise UserError(f"{output} is where a run has its predictions: choose another --output")
    if not output.exists():
        return
    try:
        first = output.read_text("utf-8").partition("\n")[0] if output.is_file() else "[]"
        predicted = not first or {"texts", "prediction"} <= set(json.loads(first))
    except (ValueError, TypeError, RecursionError):
        predicted = False
    if not predicted or (file is not None and output.samefile(file)):
        raise UserError(f"{output} exists and holds no predictions: choose another --output")
