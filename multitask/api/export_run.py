# Tested by tests/inference/export/test_write_export.py
"""Export a task of a trained run."""

from collections.abc import Sequence
from pathlib import Path

from multitask.config.between_tasks import chosen_task
from multitask.store.run_directory import RunDirectory, load_run_config
from multitask.utils.errors import UserError, reading


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
    task = chosen_task(run, config, task)

    from multitask.data.inputs.base import input_of
    from multitask.inference.export.export_parts import Parts
    from multitask.inference.export.write_export import TEXTS, DevRows, check_target, write_export
    from multitask.inference.load_run import TrainedRun

    check_target(directory)
    trained, files = TrainedRun(run, config), RunDirectory(run)
    count = input_of(config.tasks[task]).texts
    rows = DevRows([(text, TEXTS[0])[:count] for text in TEXTS], None)
    predictions = files.predictions_of(task, "dev")
    if predictions.is_file():
        with reading(predictions):
            records = files.load_predictions(task, "dev")
            labelled = all(record["label"] is not None for record in records)
            texts = [tuple(record["texts"]) for record in records]
        rows = DevRows(texts, records if labelled else None)
    return write_export(
        Parts(config, task, trained.model_for(task), trained.tokenizer, trained.readers[task]),
        run,
        directory,
        form=form,
        rows=rows,
        encoder_only=encoder_only,
        with_int8=int8,
    )
