"""Import packages that only one feature needs."""

import importlib
import shlex
from typing import Any

from multitask.utils.errors import UserError
from multitask.utils.versions import ROOT


def install_command(extra: str) -> str:
    """Return the command that installs an extra of ``pyproject.toml``, quoted for a shell.

    It names the clone's directory: a package of this name on an index would be another one.
    """
    if (ROOT / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{ROOT}[{extra}]')}"
    return f"pip install {shlex.quote(f'multitask-bert[{extra}]')}"


def optional(module: str, use: str, extra: str) -> Any:
    """Import ``module``. Raises UserError if it is missing, with the command that installs it.

    Args:
        module: the name to import.
        use: for the message, such as "semantic search needs FAISS".
        extra: the extra of ``pyproject.toml`` that has the package.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{use}: {install_command(extra)}") from error
