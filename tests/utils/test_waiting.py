"""OpenMP's threads spin for a short time only: the variable is set before torch is loaded."""

import os
import subprocess
import sys

import pytest

from multitask.utils.waiting import SPINS, limit_spinning
from tests.conftest import ROOT

VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, str(SPINS)),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "active"}, None),
        ({"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "9"}, "9"),
    ],
)
def test_a_variable_of_the_user_wins(variables, expected, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    limit_spinning()
    assert os.environ.get("GOMP_SPINCOUNT") == expected


@pytest.mark.parametrize("door", ["import multitask", "import run_multitask"])
def test_libgomp_reads_it_when_torch_is_loaded_after_the_package(door):
    """libgomp prints its settings when it is loaded, if it is asked for them."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    code = f"import os, sys; {door}; assert 'torch' not in sys.modules; import torch"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**environment, "OMP_DISPLAY_ENV": "verbose"},
        capture_output=True,
        text=True,
        check=True,
    )
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("this build of torch has another OpenMP library")
    assert f"GOMP_SPINCOUNT = '{SPINS}'" in done.stderr
