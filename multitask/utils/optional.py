"""Import packages that only one feature needs."""

import importlib
from typing import Any

from multitask.utils.errors import UserError


def optional(module: str, use: str, packages: str) -> Any:
    """Import ``module``. Raises UserError if it is missing, with the command that installs it.

    Args:
        module: the name to import.
        use: for the message, such as "semantic search needs FAISS".
        packages: the packages to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{use}: pip install {packages}") from error
