"""The message of a refused command or config."""

from pathlib import Path

import pytest

import run_multitask
from multitask.config import load_config
from multitask.config.yaml_merge import load_tree
from multitask.utils.errors import UserError


def complaint(capsys: pytest.CaptureFixture, *arguments: object, code: int = 2) -> str:
    """Run a command that must be refused; return its one line of complaint."""
    capsys.readouterr()
    assert run_multitask.main([str(argument) for argument in arguments]) == code
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert "Traceback" not in captured.out
    return line.removeprefix("error: ")


def refusal(file: str | Path, *overrides: str) -> str:
    """Load a config that must be refused; return the one line of complaint."""
    with pytest.raises(UserError) as caught:
        load_config(file, list(overrides))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def tree_refusal(name: str = "a.yaml", *overrides: str) -> str:
    """Read YAML that must be refused before any key is looked at; return the one line."""
    with pytest.raises(UserError) as caught:
        load_tree(name, list(overrides))
    assert "\n" not in str(caught.value)
    return str(caught.value)
