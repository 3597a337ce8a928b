"""The branch of a GPU, on a CPU, for the rest of a test."""

import pytest

from benchmarks.launch_counter import branching


def as_on_a_gpu(patch: pytest.MonkeyPatch) -> None:
    """Let every module of ours take the branch of a GPU on a CPU."""
    for module in branching():
        patch.setattr(module, "counts_launches", lambda device: True)
