# Tested by tests/inference/export/test_write_export.py
"""Export a task of a run for transformers, sentence-transformers or ONNX, or its ternary encoder.

The export is loaded and compared with the run before DIR appears (docs/export.md).
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from multitask.commands.arguments import add_overrides, add_run, add_task
from multitask.utils.paths import expand_home

if TYPE_CHECKING:
    from multitask.config import Config
    from multitask.inference.export.write_export import DevRows

FORMATS = ("transformers", "sentence-transformers", "onnx", "ternary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "directory",
        metavar="DIR",
        type=expand_home,
        help="where to: a directory that does not exist yet",
    )
    add_overrides(parser)
    parser.add_argument("--format", required=True, choices=FORMATS, help="who is to load it")
    add_task(parser, "the task; needed if the run has several")
    text = "transformers: the encoder that serves the task, without the task's head"
    parser.add_argument("--encoder-only", action="store_true", help=text)
    text = "onnx: also a file with int8 weights; its loss and speed on dev rows are measured"
    parser.add_argument("--int8", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.config.checks import check_task
    from multitask.store.run_directory import load_run_config
    from multitask.utils.errors import UserError

    run_dir, form, task = arguments.run, arguments.format, arguments.task
    for option, needed in (("encoder_only", "transformers"), ("int8", "onnx")):
        if getattr(arguments, option) and form != needed:
            name = option.replace("_", "-")
            raise UserError(f"--{name} is for --format {needed}, not {form}")
    # the CPU, and the precision of the other libraries
    fixed = ["device=cpu", "training.precision=fp32", "encoder.kernels=torch"]
    config = load_run_config(run_dir, [*arguments.overrides, *fixed])
    tasks = list(config.tasks)
    if task is None and len(tasks) > 1:
        raise UserError(f"{run_dir}: several tasks: say which with --task: {', '.join(tasks)}")
    task = task or tasks[0]
    check_task(run_dir, config, task)

    from multitask.inference.export.export_parts import Parts
    from multitask.inference.export.write_export import check_target, write_export
    from multitask.inference.load_run import TrainedRun

    check_target(arguments.directory)
    trained = TrainedRun(run_dir, config)
    parts = Parts(config, task, trained.model_for(task), trained.tokenizer, trained.readers[task])
    lines = write_export(
        parts,
        run_dir,
        arguments.directory,
        form=form,
        rows=_dev_rows(run_dir, config, task),
        encoder_only=arguments.encoder_only,
        with_int8=arguments.int8,
    )
    print("\n".join([*lines, f"written: {arguments.directory}"]))


def _dev_rows(run_dir: Path, config: "Config", task: str) -> "DevRows":
    """Return the dev rows that the run saved with its predictions, or a few texts without them."""
    from multitask.data.inputs.base import input_of
    from multitask.inference.export.write_export import TEXTS, DevRows
    from multitask.store.run_directory import RunDirectory
    from multitask.utils.errors import reading

    run = RunDirectory(run_dir)
    if not run.predictions_of(task, "dev").is_file():
        count = input_of(config.tasks[task]).texts
        return DevRows([(text, TEXTS[0])[:count] for text in TEXTS], None)
    with reading(run.predictions_of(task, "dev")):
        records = run.load_predictions(task, "dev")
        labelled = all(record["label"] is not None for record in records)
        texts = [tuple(record["texts"]) for record in records]
    return DevRows(texts, records if labelled else None)
