"""The smaller files of a run, of this version and of older ones."""

import json

import pytest

from multitask.config.run_directory import RunDirectory
from multitask.config.saved.base import read_saved
from multitask.config.saved.run_files import AllBaselines, BestSteps, Marker
from multitask.utils.files import json_text
from tests.conftest import ROOT

OLD = RunDirectory(ROOT / "tests" / "old_run" / "finished")


@pytest.mark.parametrize(
    ("file", "model"), [(OLD.best, BestSteps), (OLD.baselines, AllBaselines)], ids=["best", "base"]
)
def test_the_files_of_an_old_run_stay_equal_to_the_byte(file, model):
    text = json_text(json.loads(file.read_text()))
    assert json_text(read_saved(file, model, "{}").model_dump(exclude_unset=True)) == text


def test_a_marker_of_an_old_version_has_no_checksums():
    started = read_saved(OLD.marker, Marker, "{}").started_with
    assert (started.config, started.data, started.kernels) == (None, None, None)
