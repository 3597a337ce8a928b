"""The processes of a sweep: who trains what, who waits, what a kill leaves behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from multitask.sweep.pool import environment
from multitask.utils.owner import holder
from tests.support.fake_sweep import (
    ALL,
    GRID,
    ablate,
    background,
    is_alive,
    lock_of,
    starts,
    trainer_of,
    until,
)


def test_two_processes_at_once_train_each_run_once(grid, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    both = [background(grid), background(grid, "--jobs", 2)]
    until(lambda: sum(len(starts(*run)) for run in ALL) == 3)  # all three slots are at work
    grid.with_name("hold").unlink()
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [len(starts(*run)) for run in ALL] == [1, 1, 1, 1]
    done = [re.findall(r"(\w seed \d): mean \S+ \(\d+ s\)", output) for output in said]
    assert sorted(done[0] + done[1]) == sorted(f"{cell} seed {seed}" for cell, seed in ALL)
    assert "4/4" in said[0] and "4/4" in said[1]  # each saw the others' end and wrote the table


def test_a_run_that_others_hold_is_waited_for_and_said(grid, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    grid.write_text(GRID.replace("[1, 2]", "[1]"))
    first = background(grid, "--jobs", 2)
    until(lambda: holder(lock_of("a", 1)) and holder(lock_of("b", 1)))
    second = background(grid)
    line = second.stdout.readline()
    assert line.startswith("held by other processes, to be waited for: a seed 1 (host ")
    assert f"process {trainer_of('a', 1)})" in line and "b seed 1" in line
    grid.with_name("hold").unlink()
    first.communicate(timeout=60)
    rest, _ = second.communicate(timeout=60)
    assert "cell 2/2 " in rest and "(by another process)" in rest
    assert (first.returncode, second.returncode) == (0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the children's end is Linux's PDEATHSIG")
def test_after_kill_9_no_child_lives_on_and_the_next_start_resumes(grid, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    process = background(grid)
    until(lambda: Path("runs/g/cells/a/seed-1/metrics.jsonl").exists())
    child = trainer_of("a", 1)
    process.kill()
    process.wait()
    until(lambda: not is_alive(child))
    grid.with_name("hold").unlink()
    assert ablate(grid) == 0
    assert [len(starts(*run)) for run in ALL] == [2, 1, 1, 1]
    assert [start.endswith(" --resume") for start in starts("a", 1)] == [False, True]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_children_and_says_how_to_go_on(number, grid, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    process = background(grid, "--jobs", 2)
    until(lambda: all(Path(f"runs/g/cells/{c}/seed-1/metrics.jsonl").exists() for c in "ab"))
    processes = [trainer_of(cell, 1) for cell in "ab"]
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "error: interrupted: 0 of 4 runs are finished in runs/g; go on with the same" in output
    assert not any(map(is_alive, processes))
    assert holder(lock_of("a", 1)) is None


def test_a_run_that_was_killed_after_its_report_is_completed(grid, capsys):
    """The name in its lock says so: pages may be missing, and the weights are there."""
    assert ablate(grid, "--keep-weights") == 0
    lock_of("b", 2).write_text("host another, process 7")
    capsys.readouterr()
    assert ablate(grid) == 0
    output = capsys.readouterr().out
    assert "3 of 4 runs are finished already" in output
    assert "cell 4/4 b seed 2: mean 0.200 (" in output
    assert [start.endswith(" --discard-weights --resume") for start in starts("b", 2)] == [0, 1]
    assert not Path("runs/g/cells/b/seed-2/weights").exists()
    assert Path("runs/g/cells/b/seed-1/weights").exists()


def test_a_run_that_is_interrupted_elsewhere_goes_on(grid, monkeypatch):
    """75 means pending: `train` was interrupted and has saved, or another process trains there."""
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    grid.write_text(GRID.replace("[1, 2]", "[1]").replace(", b: {training.epochs: 3}", ""))
    process = background(grid)
    until(lambda: Path("runs/g/cells/a/seed-1/metrics.jsonl").exists())
    os.kill(trainer_of("a", 1), signal.SIGTERM)
    until(lambda: len(starts("a", 1)) == 2)
    grid.with_name("hold").unlink()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "cell 1/1 a seed 1: mean 0.100" in output
    assert starts("a", 1)[1].endswith(" --resume")


def test_a_suspended_run_is_not_started_again(grid, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    grid.write_text(GRID.replace("[1, 2]", "[1]").replace(", b: {training.epochs: 3}", ""))
    first = background(grid)
    pid = trainer_of("a", 1)
    os.kill(pid, signal.SIGSTOP)
    second = background(grid)
    assert f"process {pid})" in second.stdout.readline()
    grid.with_name("hold").unlink()
    os.kill(pid, signal.SIGCONT)
    said = [process.communicate(timeout=60)[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], said
    assert len(starts("a", 1)) == 1


CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


def test_sweeps_in_containers_with_one_host_name_start_no_run_twice(grid, monkeypatch):
    """A process number counts in its PID namespace only."""
    if not shutil.which("unshare") or subprocess.run([*CONTAINER, "true"]).returncode:
        pytest.skip("unshare makes no PID namespace here")
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    both = [background(grid, prefix=CONTAINER) for _ in range(2)]
    until(lambda: sum(len(starts(*run)) for run in ALL) == 2)
    grid.with_name("hold").unlink()
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [len(starts(*run)) for run in ALL] == [1, 1, 1, 1]


def test_only_a_second_ctrl_c_kills_the_runs(grid, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    process = background(grid)
    pid = trainer_of("a", 1)
    os.kill(pid, signal.SIGSTOP)  # it takes its time to save
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    for number in (signal.SIGINT, signal.SIGINT):
        process.send_signal(number)
        time.sleep(0.2)
    process.communicate(timeout=60)
    assert process.returncode == 2 and not is_alive(pid)


def test_several_jobs_share_the_cores_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert "OMP_NUM_THREADS" not in environment(1)
    assert environment(3)["OMP_NUM_THREADS"] == "2"
    assert environment(20)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert environment(3)["OMP_NUM_THREADS"] == "5"
