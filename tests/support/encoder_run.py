"""The command that trains the course's tasks on a tiny encoder of any type."""

from pathlib import Path

from tests.conftest import save_tiny_encoder
from tests.support.commands import small


def arguments(kind: str, course_files: Path, directory: Path, run: Path, *more: str) -> list[str]:
    """Words of the command; the encoder is made in ``directory`` if it is not there."""
    encoder = directory / kind
    if not encoder.is_dir():
        save_tiny_encoder(encoder, kind)
    return small(encoder, course_files, "training.precision=fp32", *more, f"output_dir={run}")
