"""The engine `ray`: what it refuses, and what a lost worker leads to."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from multitask.sweep.engines.base import Settings
from multitask.sweep.engines.ray import Ray
from multitask.utils.errors import UserError
from tests.support.engine_kills import parent
from tests.support.fake_sweep import ALL, alive, background, log_of, processes_of, starts, until

needs_ray = [
    pytest.mark.engines,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
]


def with_marks(test):
    for mark in needs_ray:
        test = mark(test)
    return test


def test_a_missing_ray_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(UserError, match=r"needs Ray: pip install .*\[engines\]"):
        Ray(Settings(tmp_path))


def refused(grid: Path, *arguments: object) -> str:
    """The error line of a sweep that ends before any run starts."""
    process = background(grid, "--engine", "ray", *arguments)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 2, said
    assert not any(starts(*run) for run in ALL)
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    return line


@with_marks
def test_a_request_that_no_node_meets_is_an_error_at_the_start(grid):
    line = refused(grid, "--cpus-per-run", 4000)
    assert "no node has 4000 CPU cores and 0 GPUs for a run" in line


@with_marks
def test_a_cluster_that_is_not_there_is_one_line(grid):
    assert "--address 127.0.0.1:9: " in refused(grid, "--address", "127.0.0.1:9")


ELSEWHERE = """
from pathlib import Path
from multitask.sweep.engines import ray
from multitask.sweep.engines.base import Settings
from multitask.utils.errors import UserError
ray.looker = lambda: lambda file: not file.startswith("/")  # no node sees an absolute path
try:
    ray.Ray(Settings(Path.cwd()))
except UserError as error:
    print(error)
"""


@with_marks
def test_a_node_that_does_not_see_the_directory_is_an_error_at_the_start(grid):
    command = [sys.executable, "-c", ELSEWHERE]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert f"does not see {Path.cwd()}: give an --output DIR that all nodes share" in said
    assert [path.name for path in Path.cwd().iterdir()] == ["g.yaml"]


@with_marks
def test_a_new_ray_starts_although_there_is_a_cluster(grid, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    process = background(grid, "--engine", "ray", "--jobs", 2)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said


@with_marks
def test_a_run_of_a_lost_worker_saves_and_is_submitted_again(grid, monkeypatch):
    hold = grid.with_name("hold")
    hold.touch()
    monkeypatch.setenv("FAKE_HOLD", str(hold))
    process = background(grid, "--engine", "ray")
    until(lambda: Path("runs/g/cells/a/seed-1/metrics.jsonl").exists())
    (run,) = processes_of("a", 1)
    os.kill(parent(run), signal.SIGKILL)
    until(lambda: "saved\n" in log_of("a", 1) and not alive(run))
    hold.unlink()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert [len(starts(*run)) for run in ALL] == [2, 1, 1, 1]
