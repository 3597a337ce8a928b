"""Write a trained run's predictions for dev and test, or for texts of one's own."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitask.inference import TrainedRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="run directory")
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", help="values to change, such as data_dir=DIR"
    )
    parser.add_argument("--task", metavar="T", help="task for --file")
    parser.add_argument(
        "--file",
        metavar="F",
        type=Path,
        help="texts of one's own: .txt with one a line (a pair separated by a tab), or a csv, tsv, "
        "jsonl or parquet file with the task's columns",
    )
    parser.add_argument(
        "--output", metavar="O", type=Path, help="JSON lines for --file (default: the terminal)"
    )


def run(arguments: argparse.Namespace) -> None:
    from multitask.config import load_run_config
    from multitask.errors import UserError, suggest

    if (arguments.task is None) != (arguments.file is None):
        raise UserError("predict: --task and --file go together")
    if arguments.output is not None and arguments.file is None:
        raise UserError(
            "predict: --output is for --file; the run's own files stand in RUN/predictions"
        )
    config = load_run_config(arguments.run, arguments.overrides)
    if arguments.file is not None:
        if arguments.task not in config.tasks:
            hint = suggest(arguments.task, list(config.tasks))
            raise UserError(f"no task {arguments.task!r} in this run{hint}")
        if not arguments.file.is_file():
            raise UserError(f"no such file: {arguments.file}")

    from multitask.inference import TrainedRun

    trained = TrainedRun(arguments.run, config)
    if arguments.file is None:
        _splits(trained, arguments.run)
    else:
        _own_texts(trained, arguments.task, arguments.file, arguments.output)


def _splits(trained: "TrainedRun", run_dir: Path) -> None:
    from multitask.data.load import load_rows
    from multitask.predictions import write_predictions

    for task in trained.tasks:
        entry, reader = trained.config.tasks[task], trained.readers[task]
        for split in ("dev", "test"):
            if getattr(entry.data, split) is None:
                continue
            rows = load_rows(trained.config, task, split, reader)
            scores = trained.score(task, rows, cache=True)
            for file in write_predictions(
                run_dir, task, split, rows, scores, reader, entry.course_file
            ):
                print(f"written: {file}")


def _own_texts(trained: "TrainedRun", task: str, file: Path, output: Path | None) -> None:
    import json

    from multitask.data.load import texts_from_file
    from multitask.files import write_text

    rows = texts_from_file(trained.config.tasks[task].data, file)
    texts = [row if len(row) > 1 else row[0] for row in rows.texts]
    found = trained.predict(task, texts)
    reader = trained.readers[task]
    if reader.label_type == "number":  # clipped in what is written, as in the prediction files
        for result in found:
            result["prediction"] = min(max(result["prediction"], reader.low), reader.high)
    lines = [
        json.dumps({"texts": text, **result}, ensure_ascii=False)
        for text, result in zip(rows.texts, found, strict=True)
    ]
    if output is None:
        print("\n".join(lines))
    else:
        write_text(output, "\n".join(lines) + "\n")
        print(f"written: {output}")
