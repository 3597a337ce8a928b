"""What a refused command says."""

import pytest

import run_multitask


def complaint(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    """Run a command that must be refused with exit code 2; return its one line of complaint."""
    capsys.readouterr()
    assert run_multitask.main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert "Traceback" not in captured.out
    return line.removeprefix("error: ")
