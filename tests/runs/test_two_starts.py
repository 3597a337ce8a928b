"""Two starts of one run, as real processes: one trains, and the other names it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import run_multitask
from multitask.store.lock import holder
from multitask.store.run_directory import RunDirectory
from tests.conftest import ROOT
from tests.support.messages import complaint
from tests.support.run_files import events


@pytest.fixture
def command(tiny_overrides: list[str]) -> list[str]:
    short = [
        "training.max_steps=6",
        "training.checkpoint_steps=2",
        "training.frozen_baseline=false",
    ]
    return ["configs/cs224n.yaml", *tiny_overrides, *short]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


@pytest.fixture
def training(command, run) -> Iterator[subprocess.Popen[str]]:
    """A process that trains the run, suspended after its first checkpoint."""
    process = subprocess.Popen(
        [sys.executable, "run_multitask.py", *command],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not run.saved_checkpoints():
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)
    yield process
    process.kill()
    process.communicate()


def test_a_suspended_process_keeps_its_run_and_finishes_it(command, run, training, capsys):
    before = run.metrics.read_bytes()
    for options in (["--resume"], ["--overwrite"]):
        line = complaint(capsys, *command, *options, code=75)
        name = f"host {os.uname().nodename}, process {training.pid}"
        assert line.startswith(f"{run.path}: another process trains there ({name})")
    assert run.metrics.read_bytes() == before
    training.send_signal(signal.SIGCONT)
    said, _ = training.communicate(timeout=120)
    assert training.returncode == 0 and run.finished, said
    assert [event["step"] for event in events(run.path) if event["event"] == "step"] == [
        *range(1, 7)
    ]


def test_the_next_start_has_the_run_of_a_killed_process_at_once(command, run, training):
    training.kill()
    training.wait()
    assert holder(run.lock) is None
    assert run_multitask.main([*command, "--resume"]) == 0
    assert run.finished and run.lock.read_text() == ""


def test_sigterm_that_comes_several_times_saves_the_run(run, training):
    for _ in range(4):
        training.send_signal(signal.SIGTERM)
    training.send_signal(signal.SIGCONT)
    said, _ = training.communicate(timeout=120)
    assert training.returncode == 75 and "interrupted; the state is saved" in said
    assert len(run.saved_checkpoints()) >= 1 and not run.finished
