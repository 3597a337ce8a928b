# Tested by tests/inference/export/test_write_export.py
"""Export a task of a trained run."""

from collections.abc import Sequence
from pathlib import Path

from multitask.config.between_tasks import chosen_task
from multitask.store.run_directory import load_run_config
from multitask.utils.errors import UserError


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
    from multitask.inference.export.write_export import check_target, dev_records, write_export
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
        records=[dev_records(run, parts) for parts in tasks],
        encoder_only=encoder_only,
        with_int8=int8,
    )
