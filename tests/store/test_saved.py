"""The files of a run go through their models and stay as they are; a damaged one is one error."""

import json
import math

import pytest

from multitask.store.files import json_text
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import Baselines, RunReport, read_saved
from multitask.utils.errors import UserError
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


ENTRY = '"tasks": {"a": {"label_type": "class", "metric": "f1", "dev": {}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Expecting property name"),
        ("[]", "expected an object"),
        ('{"tasks": {}}', "it has no seed"),
        ('{"seed": "1", "selection_split": "dev", "tasks": {}}', "seed: "),
        ('{"seed": -1, "selection_split": "dev", "tasks": {}}', "seed: "),
        ('{"seed": 1, "selection_split": "dev", "tasks": {"a": {}}}', "it has no tasks.a"),
        (
            f'{{"seed": 1, "selection_split": "dev", {ENTRY}, "turns": 3}}}}}}',
            "tasks.a.turns: expected an object",
        ),
    ],
)
def test_a_damaged_report_names_the_file_and_the_key(text, words, tmp_path):
    file = tmp_path / "report.json"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        read_saved(file, RunReport, "restore it")
    assert str(error.value).startswith(f"{file}: damaged: {words}")
    assert str(error.value).endswith("; restore it")


def test_undefined_scores_are_none_as_in_the_file():
    baselines = Baselines(trivial={"f1": math.nan, "mcc": 0.5}, frozen=None).defined()
    assert baselines.content() == {"trivial": {"f1": None, "mcc": 0.5}, "frozen": None}


def test_the_baselines_stay_equal_to_the_byte(course_run):
    file = RunDirectory(course_run).baselines
    read = read_saved(file, dict[str, Baselines])
    assert json_text({name: each.content() for name, each in read.items()}) == file.read_text()
