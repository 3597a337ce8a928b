"""Commands in a real process that gets a signal inside the Nth call of one function."""

import os
import signal
import subprocess
import sys

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
