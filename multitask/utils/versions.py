"""Return the command, and the versions of Python, packages and this project, to save in files."""

import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

VERSION = "0.1.0"
ROOT = Path(__file__).parents[2]  # the clone; of an installed wheel: site-packages
SCRIPT = "multitask"  # the name of the installed script


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of installed packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def program_name() -> str:
    """Return the name by which the program was started: the script's or the file's."""
    return SCRIPT if Path(sys.argv[0]).name == SCRIPT else "run_multitask.py"


def command_line() -> str:
    """Return the command of this process, quoted for a shell; a notebook has none."""
    if hasattr(sys, "ps1"):  # set by IPython, too
        return "an interactive session of Python"
    if program_name() == SCRIPT:
        return shlex.join([SCRIPT, *sys.argv[1:]])
    return shlex.join(["python", *sys.argv])


def git_revision() -> str | None:
    """Return the commit of the project, with `-dirty` if files were changed; None outside git.

    A wheel has no commit, though its directory may be in the clone of another project.
    """
    if not (ROOT / ".git").exists():
        return None
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
