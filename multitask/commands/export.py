# Tested by tests/inference/export/test_write_export.py
"""Export a task of a run for transformers, sentence-transformers or ONNX, or its ternary encoder.

The export is loaded and compared with the run before DIR appears (docs/export.md).
"""

import argparse

from multitask.commands import arguments as shared

FORMATS = ("transformers", "sentence-transformers", "onnx", "ternary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_run(parser)
    shared.add_path(parser, "directory", "DIR", "where to: a directory that does not exist yet")
    shared.add_overrides(parser)
    parser.add_argument("--format", required=True, choices=FORMATS, help="who is to load it")
    shared.add_task(parser, "the task; needed if the run has several")
    text = "transformers: the encoder that serves the task, without the task's head"
    parser.add_argument("--encoder-only", action="store_true", help=text)
    text = "onnx: also a file with int8 weights; its loss and speed on dev rows are measured"
    parser.add_argument("--int8", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.export_run import export

    lines = export(
        arguments.run,
        arguments.directory,
        arguments.overrides,
        form=arguments.format,
        task=arguments.task,
        encoder_only=arguments.encoder_only,
        int8=arguments.int8,
    )
    print("\n".join([*lines, f"written: {arguments.directory}"]))
