# Tested by tests/test_start_up.py
"""Multi-task BERT training: one shared encoder, a pooling and a head per task, one YAML file."""

import importlib
from typing import Any

from multitask.utils.errors import UserError
from multitask.utils.waiting import limit_spinning

# imported when used: config errors and --help need no torch
_LAZY = {
    "Callback": "multitask.training.callbacks",
    "ablate": "multitask.api.sweeps",
    "check": "multitask.api.check_config",
    "evaluate": "multitask.api.evaluate_run",
    "load": "multitask.inference.load_run",
    "report": "multitask.api.compare_runs",
    "score": "multitask.api.score_files",
    "score_submissions": "multitask.api.score_files",
    "train": "multitask.api.train_model",
    "tune": "multitask.api.sweeps",
}
__all__ = ["UserError", *_LAZY]

limit_spinning()


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'multitask' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
