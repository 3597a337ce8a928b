"""Return the command, and the versions of Python, packages and this project, to save in files."""

import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of installed packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def command_line() -> str:
    """Return the command of this process, quoted for a shell."""
    return shlex.join(["python", *sys.argv])


def git_revision() -> str | None:
    """Return the commit of the project, with `-dirty` if files were changed; None outside git."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
