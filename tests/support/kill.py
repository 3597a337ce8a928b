"""Runs that get a signal: a process in the Nth call of a function, this one in its Nth step."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from multitask.training import trainer
from tests.conftest import ROOT

KILLER = """
import importlib, os, sys
module, name, when, nth, number = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
owner = importlib.import_module(module)
if "." in name:
    cls, name = name.split(".")
    owner = getattr(owner, cls)
original, calls = getattr(owner, name), 0
def patched(*args, **kwargs):
    global calls
    calls += 1
    if calls == nth and when == "before":
        os.kill(os.getpid(), number)
    result = original(*args, **kwargs)
    if calls == nth and when == "after":
        os.kill(os.getpid(), number)
    return result
setattr(owner, name, patched)
import run_multitask
sys.exit(run_multitask.main(sys.argv[6:]))
"""


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Send this process Ctrl-C inside the given training step."""
    original, calls = trainer.train_step, []

    def interrupted(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **options)

    monkeypatch.setattr(trainer, "train_step", interrupted)


def kill_inside(place: str, when: str, nth: int, arguments: list[str]) -> None:
    """Run the command; it dies "before" or "after" call ``nth`` of ``place``, a module:function."""
    signal_inside(signal.SIGKILL, place, when, nth, arguments)


def signal_inside(
    number: signal.Signals, place: str, when: str, nth: int, arguments: list[str]
) -> None:
    """The same with another signal: SIGTERM asks the run to save its state and to end."""
    module, name = place.split(":")
    result = subprocess.run(
        [sys.executable, "-c", KILLER, module, name, when, str(nth), str(int(number)), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    ended = os.EX_TEMPFAIL if number == signal.SIGTERM else -number
    assert result.returncode == ended, result.stderr
