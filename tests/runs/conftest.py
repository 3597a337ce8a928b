"""Fixtures of several kinds of runs."""

import shutil

import pytest

from tests.support.contrastive_run import write_config, write_triplets
from tests.training.conftest import make

__all__ = ["make"]  # a fixture of the training tests


@pytest.fixture(scope="module")
def contrastive_files(course_files, tmp_path_factory):
    """The course's files and triplets."""
    directory = tmp_path_factory.mktemp("files")
    shutil.copytree(course_files, directory, dirs_exist_ok=True)
    write_triplets(directory)
    return directory


@pytest.fixture
def contrastive_config(tiny_encoder, contrastive_files, tmp_path):
    """Writes a config with a contrastive task ``views`` and the task ``sts``; returns its name."""

    def write(input="single", head="contrastive", **changes):
        file = tmp_path / "c.yaml"
        return write_config(file, tiny_encoder, contrastive_files, input, head, **changes)

    return write
