# Tested by tests/inference/export/test_write.py
"""Packages that only an export needs."""

import importlib.util
from collections.abc import Sequence

from multitask.utils.errors import UserError


def required(package: str, install: Sequence[str]) -> None:
    """Raise UserError, which names the install, where ``package`` is missing."""
    if importlib.util.find_spec(package.replace("-", "_")) is None:
        raise UserError(f"{package} is not installed: pip install {' '.join(install)}")
