"""Reports of this and older versions go through the model and stay as they are."""

import json

import pytest

from multitask.config.saved.report_model import RunReport
from multitask.utils.files import json_text
from tests.conftest import ROOT
from tests.support.run_files import report_of

STORED = [
    file
    for file in sorted((ROOT / "docs" / "results").rglob("*.json"))
    if {"seed", "selection_split", "tasks"} <= set(json.loads(file.read_text()))
]
NOW = sorted((ROOT / "tests" / "old_run").rglob("report.json"))


def test_there_are_stored_reports():
    assert STORED and NOW


@pytest.mark.parametrize("file", [*STORED, *NOW], ids=lambda file: file.stem)
def test_a_stored_report_keeps_its_keys_and_values(file):
    content = json.loads(file.read_text())
    assert RunReport.model_validate(content).content() == content


@pytest.mark.parametrize("file", NOW, ids=lambda file: file.parent.name)
def test_a_report_of_now_stays_equal_to_the_byte(file):
    text = file.read_text()
    report = RunReport.model_validate(json.loads(text))
    assert json_text(report.content()) == json_text(json.loads(text))


def test_a_new_run_writes_the_keys_in_the_order_of_old_ones(tiny_run):
    old, new = json.loads(NOW[0].read_text()), report_of(tiny_run)
    assert list(new) == list(old)
    orders = [list(next(iter(report["tasks"].values()))) for report in (old, new)]
    assert orders[0] == orders[1]


def test_keys_of_other_versions_are_kept():
    content = {"seed": 1, "selection_split": "dev", "tasks": {}, "newer": {"a": [1]}}
    assert RunReport.model_validate(content).content() == content
