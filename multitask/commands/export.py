# Tested by tests/inference/export/test_write_export.py
"""Write a task as a model for transformers, sentence-transformers, peft or ONNX.

Or write its ternary encoder. The export is loaded and compared with the run before DIR appears
(docs/export.md).
"""

import argparse

from multitask.commands import arguments as shared

FORMATS = ("transformers", "sentence-transformers", "peft", "onnx", "ternary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_run(parser)
    shared.add_path(parser, "directory", "DIR", "where to: a directory that does not exist yet")
    shared.add_overrides(parser)
    text = "who is to load it"
    parser.add_argument("--format", dest="form", required=True, choices=FORMATS, help=text)
    shared.add_task(parser, "the task; needed if the run has several (onnx: also several, A,B)")
    text = "transformers: the encoder that serves the task, without the task's head"
    parser.add_argument("--encoder-only", action="store_true", help=text)
    text = "onnx: also a file with int8 weights; its loss and speed on dev rows are measured"
    parser.add_argument("--int8", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.export_run import export

    for line in export(**vars(arguments)):
        print(line)
    print(f"written: {arguments.directory}")
