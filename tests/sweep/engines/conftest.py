"""Each engine of the registry that is installed here."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from multitask.sweep.engines.base import ENGINES
from tests.conftest import ROOT

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


@functools.cache
def missing(name: str, directory: Path) -> str:
    """What an engine says that cannot be used here; empty if it can."""
    command = [sys.executable, "-c", LOAD, name]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=directory, env=variables, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of an engine."""
    said = missing(request.param, tmp_path_factory.getbasetemp())
    if said:
        pytest.skip(said)
    return request.param
