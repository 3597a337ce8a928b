"""Arguments that several commands share: what is read, and what is refused."""

import argparse
from pathlib import Path
from types import SimpleNamespace

import pytest

from multitask.commands import arguments
from multitask.utils.errors import UserError


def test_runs_and_overrides_come_in_any_order():
    parser = argparse.ArgumentParser()
    arguments.add_runs(parser, "to compare")
    given = parser.parse_args(["a", "device=cpu", "runs/b", "data_dir=D", "c"])
    runs, overrides = arguments.runs_and_overrides(given)
    assert runs == [Path("a"), Path("runs/b"), Path("c")]
    assert overrides == ["device=cpu", "data_dir=D"]


def test_a_tilde_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/h")
    parser = argparse.ArgumentParser()
    arguments.add_runs(parser, "to compare")
    arguments.add_output(parser, "DIR", "")
    given = parser.parse_args(["~/a", "~/b", "--output=~/c"])
    assert arguments.runs_and_overrides(given)[0] == [Path("/h/a"), Path("/h/b")]
    assert given.output == Path("/h/c")


@pytest.mark.parametrize(("number", "least"), [(0, 1), (-1, 0)])
def test_a_number_that_is_too_small(number, least):
    arguments.check_number("--jobs", least, least)
    message = f"--jobs: expected a whole number ≥ {least}, not {number}"
    with pytest.raises(UserError, match=message):
        arguments.check_number("--jobs", number, least)


def test_a_task_that_the_run_lacks():
    config = SimpleNamespace(tasks={"sst": None, "sts": None})
    arguments.check_task(Path("runs/a"), config, "sts")
    with pytest.raises(UserError, match=r"runs/a: no task 'stst' \(did you mean 'sts'\?\)"):
        arguments.check_task(Path("runs/a"), config, "stst")
