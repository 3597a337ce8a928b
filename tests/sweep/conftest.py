"""Fixtures of the sweep tests."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from multitask.sweep import pool
from multitask.sweep.engines.base import ENGINES
from tests.conftest import ROOT
from tests.support import comparison_stand_in
from tests.support.fake_sweep import FAKE, GRID

LOAD = """
import sys
from pathlib import Path
from multitask.sweep.engines.base import Settings, load_engine
from multitask.utils.errors import UserError
try:
    load_engine(sys.argv[1], Settings(Path.cwd())).close()
except UserError as error:
    print(error)
"""
MARKED = {name: [] if name == "local" else [pytest.mark.engines] for name in ENGINES}
NAMES = [pytest.param(name, marks=marks) for name, marks in MARKED.items()]


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A grid file in an empty working directory; training is the stand-in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(pool, "PROGRAM", FAKE)
    monkeypatch.setattr(pool, "TICK", 0.02)
    for name in ("compare", "sheet_tables", "write_sheet"):
        monkeypatch.setitem(sys.modules, f"multitask.reporting.{name}", comparison_stand_in)
    file = tmp_path / "g.yaml"
    file.write_text(GRID)
    return file


@pytest.fixture
def hold(grid: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file without which runs end."""
    file = grid.with_name("hold")
    file.touch()
    monkeypatch.setenv("FAKE_HOLD", str(file))
    return file


@functools.cache
def missing(name: str, directory: Path) -> str:
    """Return why an engine cannot be used here; empty if it can."""
    command = [sys.executable, "-c", LOAD, name]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=directory, env=variables, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of each engine of the registry that is installed here."""
    said = missing(request.param, tmp_path_factory.getbasetemp())
    if said:
        pytest.skip(said)
    return request.param
