"""Commands in a real process that is killed -9 inside the Nth call of one function."""

import os
import signal
import subprocess
import sys

from tests.conftest import ROOT

KILLER = """
import importlib, os, signal, sys
module, name, when, nth = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
owner = importlib.import_module(module)
if "." in name:
    cls, name = name.split(".")
    owner = getattr(owner, cls)
original, calls = getattr(owner, name), 0
def patched(*args, **kwargs):
    global calls
    calls += 1
    if calls == nth and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = original(*args, **kwargs)
    if calls == nth and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, name, patched)
import run_multitask
sys.exit(run_multitask.main(sys.argv[5:]))
"""


def kill_inside(place: str, when: str, nth: int, arguments: list[str]) -> None:
    """Run the command; it dies "before" or "after" call ``nth`` of ``place``, a module:function."""
    module, name = place.split(":")
    result = subprocess.run(
        [sys.executable, "-c", KILLER, module, name, when, str(nth), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == -signal.SIGKILL, result.stderr
