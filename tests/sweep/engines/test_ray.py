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
from tests.support.engine_jobs import job_of
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


@with_marks
def test_a_new_ray_starts_although_there_is_a_cluster(grid, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    process = background(grid, "--engine", "ray", "--jobs", 2)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said


def holding(grid: Path, monkeypatch) -> tuple[subprocess.Popen[str], Path, int]:
    """A sweep whose first run does not end while the file is there, and the run's process."""
    hold = grid.with_name("hold")
    hold.touch()
    monkeypatch.setenv("FAKE_HOLD", str(hold))
    process = background(grid, "--engine", "ray")
    until(lambda: Path("runs/g/cells/a/seed-1/metrics.jsonl").exists())
    (run,) = processes_of("a", 1)
    return process, hold, run


@with_marks
def test_a_run_of_a_lost_worker_saves_and_is_submitted_again(grid, monkeypatch):
    process, hold, run = holding(grid, monkeypatch)
    os.kill(parent(run), signal.SIGKILL)
    until(lambda: "saved\n" in log_of("a", 1) and not alive(run))
    hold.unlink()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert [len(starts(*run)) for run in ALL] == [2, 1, 1, 1]


class Node:
    """Stands in for Ray: whether a node is alive, and what became of tasks without one."""

    class Lost(Exception):
        pass

    class Failed(Lost):
        cause = FileNotFoundError("no such directory: /scratch/cells")

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem, self.alive, self.starts, self.tasks = problem, True, 0, []
        self.RayError, self.RayTaskError, self.TaskCancelledError = self.Lost, self.Failed, KeyError

    def init(self, *_, **__):
        if self.problem:
            raise self.problem
        self.starts, self.alive = self.starts + 1, True

    def shutdown(self):
        self.alive = False

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


def test_a_job_without_a_node_waits_and_is_no_start(node, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("multitask.sweep.engines.ray.NODES", 0.0)
    engine = Ray(Settings(tmp_path))
    jobs = [job_of(tmp_path, name) for name in "ab"]
    node.alive = False
    engine.submit(jobs)
    assert engine.ended() == {} and engine.running() == ["a", "b"]
    engine.cancel(["b"])
    assert engine.running() == ["a", "b"]  # Ray starts again, and has the job
    assert engine.ended() == {"a": 0, "b": -signal.SIGTERM}
    assert node.starts == 2 and engine.running() == []
    node.alive = False
    engine.submit(jobs[:1])
    jobs[0].log.write_text("# start\n")  # it began, and the node was lost
    assert engine.ended() == {"a": -signal.SIGKILL}


def test_a_lost_job_is_a_start_if_there_is_a_node(node, tmp_path):
    engine = Ray(Settings(tmp_path))
    node.alive = False
    engine.submit([job_of(tmp_path, "a")])
    node.alive = True
    assert engine.ended() == {"a": -signal.SIGKILL}


@with_marks
def test_runs_of_a_lost_raylet_go_on_without_using_up_their_starts(grid, monkeypatch):
    process, hold, run = holding(grid, monkeypatch)
    os.kill(parent(parent(run)), signal.SIGKILL)
    hold.unlink()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert [len(starts(*run)) for run in ALL][1:] == [1, 1, 1]
    assert said.count("follows") <= 1
