"""The smaller files of a run go through their models and stay as they are."""

import json

import pytest

from multitask.config.run_directory import RunDirectory
from multitask.config.saved.base import read_saved
from multitask.config.saved.run_files import AllBaselines, BestSteps, Marker
from multitask.utils.files import json_text


@pytest.mark.parametrize(("name", "model"), [("best", BestSteps), ("baselines", AllBaselines)])
def test_a_file_stays_equal_to_the_byte(name, model, course_run):
    file = getattr(RunDirectory(course_run), name)
    text = json_text(json.loads(file.read_text()))
    assert json_text(read_saved(file, model, "{}").model_dump(exclude_unset=True)) == text


def test_a_marker_has_the_checksums_of_what_the_run_started_with(course_run):
    started = read_saved(RunDirectory(course_run).marker, Marker, "{}").started_with
    assert started.config and started.data and started.kernels == "torch"
