"""A tiny run that exports and the page of `serve` share; read only."""

import shutil
from pathlib import Path

import pytest

from tests.support.commands import main
from tests.support.contrastive_run import write_config, write_triplets


@pytest.fixture(scope="session")
def contrastive_run(tiny_encoder: Path, course_files: Path, tmp_path_factory) -> Path:
    """A contrastive task with a projection, and a task that scores its vectors."""
    place = tmp_path_factory.mktemp("contrastive")
    files = shutil.copytree(course_files, place / "data")
    write_triplets(files)
    config = write_config(place / "run.yaml", tiny_encoder, files, pooling="mean")
    assert main(config, f"output_dir={place / 'run'}", "training.max_steps=2") == 0
    return place / "run"
