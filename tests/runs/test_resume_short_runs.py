"""Trials, runs on few dev rows and runs with ordered classes: killed, resumed, and used."""

import json
import signal
from pathlib import Path

import pytest

from multitask.store.run_directory import RunDirectory
from tests.conftest import ROOT
from tests.support.commands import main
from tests.support.kill import signal_inside
from tests.support.run_files import events, report_of, results

pytestmark = pytest.mark.slow

CASES = {
    "trial": ["--try"],
    "max_dev_rows": ["defaults.max_dev_rows=7"],
    "ordered": [
        "tasks.qqp.input=cross",
        "tasks.qqp.head=classification",
        "tasks.qqp.data.ordered=true",
    ],
}


@pytest.fixture(scope="module", params=CASES)
def case(request, tiny_encoder: Path, course_files: Path, tmp_path_factory):
    """The words of a training run, and the directory of the same training without a kill."""
    words = [str(ROOT / "configs/cs224n.yaml"), *CASES[request.param], f"data_dir={course_files}"]
    words += [f"encoder.name={tiny_encoder}", "defaults.max_length=48", "training.epochs=2"]
    words += ["training.checkpoint_steps=4", "defaults.batch_size=8"]
    directory = tmp_path_factory.mktemp(request.param) / "run"
    assert main(*words, f"output_dir={directory}") == 0
    return words, directory


def test_the_case_is_what_it_is_named(case, request):
    _, run = case
    report = report_of(run)
    name = request.node.callspec.params["case"]
    assert report.get("trial", False) == (name == "trial")
    assert ("mae" in report["tasks"]["qqp"]["dev"]) == (name == "ordered")
    rows = {task["dev"]["rows"] for task in report["tasks"].values()}
    assert (rows == {7}) == (name == "max_dev_rows")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda one: one.name)
@pytest.mark.parametrize("nth", [3, 14])  # before the first checkpoint, and between two
def test_a_killed_run_resumes_to_the_same_numbers(number, nth, case, tmp_path):
    words, unbroken = case
    words = [*words, f"output_dir={tmp_path / 'run'}"]
    signal_inside(number, "multitask.training.trainer:train_step", "before", nth, words)
    assert not (tmp_path / "run" / "report.json").exists()
    assert main(*words, "--resume") == 0
    assert events(tmp_path / "run") == events(unbroken)
    assert results(tmp_path / "run") == results(unbroken)


def test_evaluate_gives_the_scores_of_the_report(case):
    _, run = case
    assert main("evaluate", run) == 0
    evaluated = json.loads(RunDirectory(run).evaluation("dev").read_text())
    for task, entry in report_of(run)["tasks"].items():
        assert evaluated[task]["metrics"] == entry["dev"]
