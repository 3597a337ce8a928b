"""Versions of Python, of packages and of the project's commit."""

import importlib.metadata
import platform
import re
import subprocess
import sys

from multitask.utils import versions


def test_versions_are_those_that_are_installed():
    assert versions.versions("torch", "pydantic") == {
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "pydantic": importlib.metadata.version("pydantic"),
    }


def test_a_revision_is_a_commit_marked_where_files_differ(monkeypatch):
    result = versions.git_revision()
    assert result is None or re.fullmatch(r".*[0-9a-f]{7,}(-dirty)?", result)

    def describe(command, **options):
        assert command[-3:] == ["describe", "--always", "--dirty"]
        return subprocess.CompletedProcess(command, 0, "abc1234-dirty\n", "")

    monkeypatch.setattr(subprocess, "run", describe)
    assert versions.git_revision() == "abc1234-dirty"


def test_there_is_none_outside_git_and_without_git(monkeypatch):
    for error in (FileNotFoundError("git"), subprocess.CalledProcessError(128, "git")):

        def fail(*arguments, error=error, **options):
            raise error

        monkeypatch.setattr(subprocess, "run", fail)
        assert versions.git_revision() is None


def test_the_command_is_what_was_typed(monkeypatch):
    for given, expected in (
        (["run_multitask.py", "a b.yaml"], "python run_multitask.py 'a b.yaml'"),
        (["/venv/bin/multitask", "a.yaml"], "multitask a.yaml"),
        (["study.py"], "python study.py"),
    ):
        monkeypatch.setattr(sys, "argv", given)
        assert versions.command_line() == expected
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert versions.command_line() == "an interactive session of Python"
