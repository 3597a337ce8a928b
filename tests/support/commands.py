"""The command line, called in this process, and the words that make a training run small."""

from pathlib import Path

import run_multitask
from tests.conftest import ROOT


def main(*arguments: object) -> int:
    """Run a command; return its exit code."""
    return run_multitask.main([str(argument) for argument in arguments])


def small(encoder: Path, files: Path, *more: object, length: int = 48) -> list[str]:
    """The words that train the course's tasks on small files and a tiny encoder."""
    lengths = [f"tasks.{task}.max_length={length}" for task in ("sst", "qqp", "sts")]
    names = [f"{ROOT}/configs/cs224n.yaml", f"data_dir={files}", f"encoder.name={encoder}"]
    return [*names, *lengths, *map(str, more)]


def trained(directory: Path, encoder: Path, files: Path, *more: object, length: int = 48) -> Path:
    """The directory of a small run that has been trained with these changes."""
    more = ("training.frozen_baseline=false", f"output_dir={directory}", *more)
    assert main(*small(encoder, files, *more, length=length)) == 0
    return directory
