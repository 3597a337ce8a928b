"""The engine `ray`: what it refuses, and what a lost worker leads to."""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from multitask.sweep.engines.base import Settings
from multitask.sweep.engines.ray import Ray
from multitask.utils.errors import UserError
from tests.support.engine_jobs import job_of
from tests.support.engine_kills import parent
from tests.support.fake_sweep import (
    ALL,
    alive,
    background,
    ended,
    log_of,
    processes_of,
    starts,
    swept,
    until,
)

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def test_a_missing_ray_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(UserError, match=r"needs Ray: pip install .*\[engines\]"):
        Ray(Settings(tmp_path))


@pytest.mark.engines
@needs_ray
@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--cpus-per-run", 4000, "no node has 4000 CPU cores and 0 GPUs for a run"),
        ("--address", "127.0.0.1:9", "--address 127.0.0.1:9: "),
    ],
)
def test_what_no_node_meets_and_a_cluster_that_is_not_there(option, value, words, grid):
    said = swept(grid, "--engine", "ray", option, value, code=2)
    assert not any(starts(*run) for run in ALL)
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert words in line


@pytest.mark.engines
@needs_ray
def test_a_new_ray_starts_although_there_is_a_cluster(grid, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    swept(grid, "--engine", "ray", "--jobs", 2)


@pytest.mark.engines
@needs_ray
def test_a_run_of_a_lost_worker_saves_and_is_submitted_again(grid, hold):
    process = background(grid, "--engine", "ray")
    until(lambda: Path("runs/g/cells/a/seed-1/metrics.jsonl").exists())
    (run,) = processes_of("a", 1)
    os.kill(parent(run), signal.SIGKILL)
    until(lambda: "saved\n" in log_of("a", 1) and not alive(run))
    hold.unlink()
    ended(process)
    assert [len(starts(*run)) for run in ALL] == [2, 1, 1, 1]


class Node:
    """Stands in for Ray: a node that may be lost, and what became of its tasks."""

    class Lost(Exception):
        pass

    class Failed(Lost):
        cause = FileNotFoundError("no such directory: /scratch/cells")

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem, self.alive, self.tasks = problem, True, []
        self.RayError, self.RayTaskError, self.TaskCancelledError = self.Lost, self.Failed, KeyError

    def init(self, *_, **__):
        if self.problem:
            raise self.problem

    def shutdown(self):
        """There is nothing to free."""

    def nodes(self):
        return [{"Alive": self.alive, "Resources": {"CPU": 2.0}}]

    def remote(self, *arguments, **options):
        if options:
            return lambda function: self
        self.tasks.append("a task" if self.alive else self.Lost())
        return len(self.tasks) - 1

    def wait(self, tasks, **_):
        return tasks, []

    def get(self, task):
        if isinstance(self.tasks[task], Exception):
            raise self.tasks[task]
        return 0


@pytest.fixture
def node(monkeypatch) -> Node:
    """A stand-in for the library, which need not be installed."""
    made = Node()
    monkeypatch.setattr("multitask.sweep.engines.ray.optional", lambda *_: made)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return made


def test_a_ray_that_does_not_come_up_is_one_line(node, tmp_path):
    node.problem = Exception("The current node timed out during startup.")  # Ray's own kind
    with pytest.raises(UserError, match="--engine ray: The current node timed out"):
        Ray(Settings(tmp_path))


def test_a_node_that_does_not_see_the_directory_is_one_line(node, tmp_path):
    engine = Ray(Settings(tmp_path))
    engine.submit([job_of(tmp_path, "a")])
    node.tasks[0] = Node.Failed()
    with pytest.raises(UserError, match=r"cannot start a run: .*/scratch/cells: does each node"):
        engine.ended()


def test_a_job_of_a_lost_node_was_killed(node, tmp_path):
    engine = Ray(Settings(tmp_path))
    jobs = [job_of(tmp_path, name) for name in "ab"]
    engine.submit(jobs[:1])
    node.alive = False
    engine.submit(jobs[1:])
    assert engine.running() == ["a", "b"]
    assert engine.ended() == {"a": 0, "b": -signal.SIGKILL} and engine.running() == []
