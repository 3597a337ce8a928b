"""The loop of a sweep: what is submitted, when, how often; who waits for whom."""

import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from multitask.sweep import pool
from multitask.sweep.engines.base import Settings
from multitask.sweep.grid import load_grid
from multitask.sweep.pool import train_all
from multitask.sweep.sweep_directory import Run, plan_runs
from tests.support.fake_sweep import (
    ALL,
    GRID,
    alive,
    background,
    ended,
    finish,
    log_of,
    processes_of,
    starts,
    until,
)

NAMES = [f"{cell} seed {seed}" for cell, seed in ALL]


class Stub:
    """An engine whose jobs end at once: with the next of the codes for their name, or finished."""

    def __init__(self, runs: list[Run], codes: dict[str, list[int]], queues: bool = False) -> None:
        self.runs = {run.name: run for run in runs}
        self.codes, self.queues = codes, queues
        self.left: list[str] = []  # in the engine since an earlier start
        self.jobs: list[str] = []
        self.submitted: list[list[str]] = []
        self.closed = 0

    @property
    def all(self) -> list[str]:
        return [name for names in self.submitted for name in names]

    def attach(self, jobs):
        self.jobs = [job.name for job in jobs if job.name in self.left]

    def submit(self, jobs):
        self.submitted.append([job.name for job in jobs])
        self.jobs += self.submitted[-1]

    def ended(self):
        codes = {}
        for name in self.jobs:
            codes[name] = self.codes[name].pop(0) if self.codes.get(name) else 0
            if codes[name] == 0:
                self.finish(self.runs[name])
        self.jobs = []
        return codes

    def finish(self, run):
        finish(run.directory)

    def running(self):
        return list(self.jobs)

    def cancel(self, names):
        raise AssertionError("nobody asked for it")

    def close(self):
        self.closed += 1


class Lines:
    """The progress: its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line):
        self.lines.append(line)

    def settled(self, name, result):
        self.lines.append(f"{name}: {result}")

    def skipped(self, count):
        self.lines.append(f"skipped {count}")

    def show(self, running):
        pass


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.alarms: list[tuple[float, Callable[[], object]]] = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        for time, call in list(self.alarms):
            if time <= self.now:
                self.alarms.remove((time, call))
                call()


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pool, "time", made)
    return made


@pytest.fixture
def train(grid, clock, monkeypatch) -> Callable[..., tuple[Stub, list[str], list[str]]]:
    """Train the grid with a stub; return it, the lines and the reasons of failures."""

    def with_stub(codes=(), left=(), queues=False, **settings):
        runs = plan_runs(load_grid(grid), Path("runs/g"))
        stub, lines, failed = Stub(runs, dict(codes), queues), Lines(), []
        stub.left = list(left)
        monkeypatch.setattr(pool, "load_engine", lambda name, settings: stub)
        asked = Settings(Path("runs/g"), **settings)
        train_all(runs, lines, failed, engine="stub", settings=asked, keep_weights=False)
        assert stub.closed == 1
        return stub, lines.lines, [f"{failure.run.name}: {failure.reason}" for failure in failed]

    return with_stub


def test_so_many_runs_at_once_and_all_in_a_queue(train):
    assert train(jobs=3)[0].submitted == [NAMES[:3], NAMES[3:]]
    shutil.rmtree("runs")
    assert train(queues=True)[0].submitted == [NAMES]


def test_runs_in_the_queue_are_not_submitted_twice(train):
    stub, lines, failed = train(queues=True, left=NAMES[1:3])
    assert stub.submitted == [[NAMES[0], NAMES[3]]] and not failed
    assert sum(": mean " in line for line in lines) == 4


def test_detached_runs_are_left_in_the_queue(train, monkeypatch):
    monkeypatch.setattr(Stub, "ended", lambda self: {})
    stub, lines, _ = train(queues=True, left=NAMES[:1], detach=True)
    assert stub.submitted == [NAMES[1:]] and lines[-1] == "4 runs are in the queue of stub"


def test_a_signal_or_a_lost_node_leads_to_three_more_starts(train):
    stub, lines, failed = train({"a seed 1": [-9] * 3, "b seed 1": [-9] * 4}, jobs=4)
    counts = [sum(name in jobs for jobs in stub.submitted) for name in NAMES]
    assert counts == [4, 4, 1, 1]
    assert "a seed 1: killed by signal 9 (Killed); start 4 of 4 follows" in lines
    assert failed == ["b seed 1: killed by signal 9 (Killed)"]


def test_a_run_that_ended_with_75_pauses_and_leaves_its_place_however_often(train, clock):
    stub, _, failed = train({"a seed 1": [75] * 6})
    assert not failed and stub.all == [*NAMES, *NAMES[:1] * 6]
    assert clock.now >= 6 * pool.PAUSE


def test_a_report_may_be_visible_a_minute_late(train, clock, monkeypatch):
    monkeypatch.setattr(
        Stub, "finish", lambda self, run: clock.alarms.append((60, partial(finish, run.directory)))
    )
    stub, _, failed = train(jobs=4)
    assert not failed and len(stub.submitted) == 1 and 60 <= clock.now < pool.LATE


def test_a_report_that_never_comes_is_a_failure(train, monkeypatch):
    monkeypatch.setattr(Stub, "finish", lambda self, run: None)
    _, _, failed = train(jobs=4)
    assert failed == [f"{name}: no report.json 90 s after the end of its process" for name in NAMES]


def test_another_code_is_a_failure_at_once(train):
    stub, _, failed = train({"a seed 1": [2]})
    assert failed == ["a seed 1: exit code 2, and nothing said"]
    assert stub.all == NAMES


class Endless(Stub):
    """Its jobs end when they are cancelled, with 75."""

    def __init__(self, runs):
        super().__init__(runs, {})
        self.cancelled: list[str] = []

    def ended(self):
        codes = dict.fromkeys(self.cancelled, 75)
        self.jobs = [name for name in self.jobs if name not in codes]
        self.cancelled = []
        return codes

    def cancel(self, names):
        self.cancelled += names


def test_runs_are_added_while_others_train_and_a_dropped_one_is_not_started_again(grid, clock):
    runs = plan_runs(load_grid(grid), Path("runs/g"))
    stub, lines, left = Endless(runs), Lines(), list(runs)
    one = pool.Pool(stub, Settings(Path("runs/g")), False, lines)
    ended = []
    with pool.working(one):
        while left or one.open:
            if not one.open:
                one.add(left.pop(0))
            ended += one.look()
            for name in one.running:
                one.drop(name)
            one.wait()
    assert stub.all == NAMES == [each.run.name for each in ended]
    assert all(each.failure for each in ended)


# --- real processes, of the engine `local` ---


def test_two_processes_at_once_train_each_run_once(grid, hold):
    both = [background(grid), background(grid, "--jobs", 2)]
    until(lambda: sum(len(starts(*run)) for run in ALL) >= 3)  # all three slots are at work
    hold.unlink()
    assert all("4/4" in ended(process) for process in both)  # each wrote the table
    assert [log_of(*run).count("trained") for run in ALL] == [1, 1, 1, 1]


def test_a_run_that_others_hold_is_waited_for_and_said(grid, hold):
    grid.write_text(GRID.replace("[1, 2]", "[1]"))
    first = background(grid, "--jobs", 2)
    until(lambda: all(Path(f"runs/g/cells/{c}/seed-1/metrics.jsonl").exists() for c in "ab"))
    second = background(grid)
    line = second.stdout.readline()
    assert line.startswith("held by other processes, to be waited for: a seed 1 (host ")
    assert "process " in line and "b seed 1" in line
    hold.unlink()
    ended(first)
    rest = ended(second)
    assert "cell 2/2 " in rest and "(by another process)" in rest
    assert [log_of(cell, 1).count("trained") for cell in "ab"] == [1, 1]


def test_a_second_ctrl_c_does_not_wait(grid, hold, monkeypatch):
    monkeypatch.setenv("FAKE_STUBBORN", "1")
    process = background(grid)
    until(lambda: Path("runs/g/cells/a/seed-1/metrics.jsonl").exists())
    process.send_signal(signal.SIGINT)
    until(lambda: "not yet" in log_of("a", 1))
    process.send_signal(signal.SIGINT)
    assert "interrupted: 0 of 4 runs" in ended(process, 2)
    (number,) = processes_of("a", 1)
    assert not alive(number)


CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


def test_sweeps_in_containers_with_one_host_name_train_no_run_twice(grid, hold):
    """A process number counts in its PID namespace only."""
    if not shutil.which("unshare") or subprocess.run([*CONTAINER, "true"]).returncode:
        pytest.skip("unshare makes no PID namespace here")
    both = [background(grid, prefix=CONTAINER) for _ in range(2)]
    until(lambda: sum(len(starts(*run)) for run in ALL) >= 2)
    hold.unlink()
    assert all(map(ended, both))
    assert [log_of(*run).count("trained") for run in ALL] == [1, 1, 1, 1]
