"""Packages that only one feature needs."""

import importlib
from typing import Any

from multitask.utils.errors import UserError


def optional(module: str, use: str, packages: str) -> Any:
    """Import ``module``. Raises UserError if it is missing: what needs it and how to install it.

    Args:
        module: the name to import.
        use: the feature and what it needs, for the message.
        packages: what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{use}: pip install {packages}") from error
