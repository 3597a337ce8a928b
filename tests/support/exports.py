"""Exports of tiny runs: the command, and what each library makes of the files."""

import torch

import run_multitask
from tests.support import commands, messages

TEXTS = ["a good film , not dull", "the cat", "who never sees the big red house near a river ?"]
PAIRS = [(one, other) for one, other in zip(TEXTS, reversed(TEXTS), strict=True)]


def main(*arguments):
    """Run the command; return its exit code."""
    return run_multitask.main(["export", *(str(argument) for argument in arguments)])


def complaint(capsys, *arguments):
    """The one line with which an export is refused."""
    return messages.complaint(capsys, "export", *arguments)


def trained(directory, encoder, course_files, *changes):
    """A run of three steps whose heads have moved away from their start."""
    more = ["training.max_steps=3", "training.precision=fp32", "training.head_lr=0.05", *changes]
    return commands.trained(directory, encoder, course_files, *more, length=40)


def outputs(loader, directory, rows):
    """A directory's output by `transformers`, row by row."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = loader.from_pretrained(directory).eval()
    with torch.no_grad():
        return [
            model(**tokenizer(*row, truncation=True, return_tensors="pt", max_length=40))
            for row in rows
        ]


def graph(file, rows, cross=False):
    """A graph's first output by onnxruntime for a padded batch of rows of one or two texts."""
    return next(iter(graph_outputs(file, rows, cross).values()))


def graph_outputs(file, rows, cross=False):
    """All outputs of a graph, by name."""
    import onnxruntime
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(file.parent)
    session = onnxruntime.InferenceSession(file)
    wanted = {one.name for one in session.get_inputs()}
    sides = [list(texts) for texts in zip(*rows, strict=True)]
    feed = {}
    for suffix, texts in zip(("", "_2"), [sides] if cross else [[s] for s in sides], strict=False):
        ready = tokenizer(*texts, truncation=True, padding=True, return_tensors="np")
        feed |= {name + suffix: value for name, value in ready.items() if name + suffix in wanted}
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))
