# Tested by tests/inference/export/test_write_export.py
"""Export a task of a trained run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from multitask.config import Config
from multitask.config.between_tasks import chosen_task
from multitask.store.run_directory import RunDirectory, load_run_config
from multitask.utils.errors import UserError, reading

if TYPE_CHECKING:
    from multitask.inference.export.write_export import DevRows


def export(
    run: Path,
    directory: Path,
    overrides: Sequence[str] = (),
    *,
    form: str,
    task: str | None = None,
    encoder_only: bool = False,
    int8: bool = False,
) -> list[str]:
    """Export a task, and return a line for each check and measurement; see ``write_export``.

    ``task`` may name several for ONNX, such as ``qqp,sts``.

    Raises UserError if an option is for another format, the run has several tasks and none is
    named, or the format cannot represent it.
    """
    for option, given, needed in (
        ("--encoder-only", encoder_only, "transformers"),
        ("--int8", int8, "onnx"),
    ):
        if given and form != needed:
            raise UserError(f"{option} is for --format {needed}, not {form}")
    # the CPU, and the precision of the other libraries
    fixed = ["device=cpu", "training.precision=fp32", "encoder.kernels=torch"]
    config = load_run_config(run, [*overrides, *fixed])
    names = [chosen_task(run, config, each) for each in (task.split(",") if task else [None])]
    if len(names) > 1 and (form != "onnx" or len({*names}) < len(names)):
        raise UserError(f"--task {task}: only --format onnx takes several tasks, each once")

    from multitask.inference.export.export_parts import Parts
    from multitask.inference.export.write_export import check_target, write_export
    from multitask.inference.load_run import TrainedRun

    check_target(directory)
    trained = TrainedRun(run, config)
    if len({trained.steps[name] for name in names}) > 1:
        message = "have the weights of different steps (`select: per_task`): export each alone"
        raise UserError(f"training.select: {' and '.join(names)} {message}")
    tasks = [
        Parts(config, name, trained.model_for(name), trained.tokenizer, trained.readers[name])
        for name in names
    ]
    return write_export(
        tasks,
        run,
        directory,
        form=form,
        rows=[_dev_rows(RunDirectory(run), config, name) for name in names],
        encoder_only=encoder_only,
        with_int8=int8,
    )


def _dev_rows(run: RunDirectory, config: Config, task: str) -> "DevRows":
    """Read rows to check an export on: the run's dev predictions, or a few texts."""
    from multitask.data.inputs.base import input_of
    from multitask.inference.export.write_export import TEXTS, DevRows

    predictions = run.predictions_of(task, "dev")
    if not predictions.is_file():
        count = input_of(config.tasks[task]).texts
        return DevRows([(text, TEXTS[0])[:count] for text in TEXTS], None)
    with reading(predictions):
        records = run.load_predictions(task, "dev")
        labelled = all(record["label"] is not None for record in records)
        texts = [tuple(record["texts"]) for record in records]
    return DevRows(texts, records if labelled else None)
