"""Fixtures of the sweep tests."""

import sys
from pathlib import Path

import pytest

from multitask.sweep import pool
from tests.conftest import ROOT
from tests.support import comparison_stand_in
from tests.support.fake_sweep import FAKE, GRID


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A grid file in an empty working directory; training is the stand-in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(pool, "PROGRAM", FAKE)
    monkeypatch.setattr(pool, "TICK", 0.02)
    for name in ("compare", "score_tables"):
        monkeypatch.setitem(
            sys.modules, f"multitask.reporting.comparison.{name}", comparison_stand_in
        )
    file = tmp_path / "g.yaml"
    file.write_text(GRID)
    return file
