"""Stored reports, and those of now, go through the model and stay as they are."""

import json

import pytest

from multitask.config.saved.report_model import RunReport
from multitask.utils.files import json_text
from tests.conftest import ROOT

STORED = [
    file
    for file in sorted((ROOT / "docs" / "results").rglob("*.json"))
    if {"seed", "selection_split", "tasks"} <= set(json.loads(file.read_text()))
]


def test_there_are_stored_reports():
    assert STORED


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_a_stored_report_keeps_its_keys_and_values(file):
    content = json.loads(file.read_text())
    assert RunReport.model_validate(content).content() == content


def test_a_report_of_now_stays_equal_to_the_byte(tiny_run):
    text = (tiny_run / "report.json").read_text()
    report = RunReport.model_validate(json.loads(text))
    assert json_text(report.content()) == text


def test_keys_of_other_versions_are_kept():
    content = {"seed": 1, "selection_split": "dev", "tasks": {}, "newer": {"a": [1]}}
    assert RunReport.model_validate(content).content() == content
