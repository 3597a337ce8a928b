"""The command that trains the course's tasks on a tiny encoder of any type."""

from pathlib import Path

from tests.conftest import save_tiny_encoder


def arguments(kind: str, course_files: Path, directory: Path, run: Path, *more: str) -> list[str]:
    """Words of the command; the encoder is made in ``directory`` if it is not there."""
    encoder = directory / kind
    if not encoder.is_dir():
        save_tiny_encoder(encoder, kind)
    lengths = [f"tasks.{task}.max_length=48" for task in ("sst", "qqp", "sts")]
    fixed = [f"data_dir={course_files}", f"encoder.name={encoder}", "training.precision=fp32"]
    return ["configs/cs224n.yaml", *fixed, *lengths, *more, f"output_dir={run}"]
