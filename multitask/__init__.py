# Tested by tests/test_start_up.py
"""Multi-task BERT training: one shared encoder, a pooling and a head per task, one YAML file."""

from typing import Any

from multitask.utils.errors import UserError
from multitask.utils.waiting import limit_spinning

__all__ = ["UserError", "load"]

limit_spinning()


def __getattr__(name: str) -> Any:
    if name == "load":  # imported when used: config errors and --help need no torch
        from multitask.inference.load_run import load

        return load
    raise AttributeError(f"module 'multitask' has no attribute {name!r}")
