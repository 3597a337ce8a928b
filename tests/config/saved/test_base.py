"""A damaged file of a run is one error that names the file and the key."""

import math

import pytest

from multitask.config.saved.base import read_saved
from multitask.config.saved.report_model import Baselines, RunReport
from multitask.config.saved.run_files import BestSteps
from multitask.utils.errors import UserError

ENTRY = '"tasks": {"a": {"label_type": "class", "metric": "f1", "dev": {}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Expecting property name"),
        ("[]", "expected an object"),
        ('{"tasks": {}}', "it has no seed"),
        ('{"seed": "1", "selection_split": "dev", "tasks": {}}', "seed: Input should be"),
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
        read_saved(file, RunReport, ": damaged: {}; restore it")
    assert str(error.value).startswith(f"{file}: damaged: {words}")
    assert str(error.value).endswith("; restore it")


def test_best_steps_without_the_joint_one_say_so(tmp_path):
    (tmp_path / "best.json").write_text('{"a": 3}')
    with pytest.raises(UserError, match="it has no joint"):
        read_saved(tmp_path / "best.json", BestSteps, " is damaged ({})")


def test_undefined_scores_are_none_as_in_the_file():
    baselines = Baselines(trivial={"f1": math.nan, "mcc": 0.5}, frozen=None).defined()
    assert baselines.content() == {"trivial": {"f1": None, "mcc": 0.5}, "frozen": None}
