"""What made a file: the command, and the versions of Python, of packages and of this project."""

import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def versions(*packages: str) -> dict[str, str]:
    """Of Python and of installed packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def command_line() -> str:
    """The command that this process was started with, for a shell."""
    return shlex.join(["python", *sys.argv])


def git_revision() -> str | None:
    """The project's commit, marked where files differ from it; None outside git."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
