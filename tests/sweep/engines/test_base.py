"""The contract of every engine of the registry: one grid, four runs, a stand-in for training."""

import ast
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from multitask.config.registry import imported
from multitask.sweep.engines.base import ENGINES
from tests.support import engine_kills, trained_grid
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

SUBMIT = """
import sys, time
from pathlib import Path
from multitask.sweep.engines.base import Job, Settings, load_engine

def job(script):
    directory = Path(script.replace(" ", "-"))
    directory.mkdir()
    variables = {"WORD": "a word"}
    return Job(script, ("sh", "-c", script), directory / "log", directory, variables)

engine = load_engine(sys.argv[1], Settings(Path.cwd(), jobs=3))
engine.attach([])
engine.submit([job("exit 3"), job("kill -9 $$"), job('echo "$WORD in $PWD"')])
running, codes = engine.running(), {}
while engine.running():
    codes |= engine.ended()
    time.sleep(0.1)
engine.close()
print([running, codes])
"""

KILLS = int(os.environ.get("KILLS", "0"))
LONGEST = 900.0  # seconds for a grid that is killed


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_encoder, course_files) -> Path:
    """A directory with the grid ``t.yaml`` of six cells, trained in ``local``."""
    desk = tmp_path_factory.mktemp("desk")
    trained_grid.write_grid(desk, tiny_encoder, course_files, epochs=2)
    trained_grid.train(desk, "local", "local")
    return desk


@pytest.mark.slow
def test_a_trained_grid_has_the_same_numbers_in_all_engines(engine, trained):
    if not (trained / engine).exists():
        trained_grid.train(trained, engine, engine)
    numbers = trained_grid.numbers
    assert len(numbers(trained, engine)["rows"]) == 6
    assert numbers(trained, engine) == numbers(trained, "local")


@pytest.fixture
def holding(grid, engine, hold) -> subprocess.Popen[str]:
    """A sweep whose first two runs have begun and do not end while the file ``hold`` is there."""
    process = background(grid, "--engine", engine, "--jobs", 2)
    until(lambda: all(Path(f"runs/g/cells/{c}/seed-1/metrics.jsonl").exists() for c in "ab"))
    return process


def test_exit_codes_output_and_variables(engine, grid):
    command = [sys.executable, "-c", SUBMIT, engine]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    running, codes = ast.literal_eval(said.splitlines()[-1])
    failing, killed, saying = running
    assert codes == {failing: 3, killed: -9, saying: 0}
    start, line = Path(saying.replace(" ", "-"), "log").read_text().splitlines()
    assert start.startswith("# start 20") and line == f"a word in {Path.cwd()}"


def test_every_run_is_trained_once_then_compared(engine, grid):
    said = swept(grid, "--engine", engine, "--jobs", 2)
    assert [len(starts(*run)) for run in ALL] == [1, 1, 1, 1]
    result = re.findall(r"^cell \d/4 (\w) seed (\d): mean \S+ \(\d+ s\)$", said, re.MULTILINE)
    assert sorted((cell, int(seed)) for cell, seed in result) == sorted(ALL)
    assert "written: runs/g/table.md" in said
    assert re.search(r"^process \d+ of g$", log_of("a", 1), re.MULTILINE)


def test_a_failed_run_is_named_and_the_rest_goes_on(engine, grid, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "b")
    said = swept(grid, "--engine", engine, "--jobs", 2, code=2)
    assert "b seed 1: failed: the data are bad; log: runs/g/cells/b/logs/seed-1.log" in said
    assert "a seed 2: mean 0.200" in said and "2 of 4 runs failed: b seed" in said


def test_a_killed_run_is_submitted_again(engine, grid, monkeypatch):
    kill = grid.with_name("kill")
    kill.touch()
    monkeypatch.setenv("FAKE_KILL", str(kill))
    said = swept(grid, "--engine", engine, "--jobs", 1)
    assert "a seed 1: killed by signal 9 (Killed); start 2 of 4 follows" in said
    assert [len(starts(*run)) for run in ALL] == [2, 1, 1, 1]


def test_after_ctrl_c_every_run_has_saved(engine, grid, hold, holding):
    holding.send_signal(signal.SIGINT)
    assert "error: interrupted: 0 of 4 runs are finished in runs/g" in ended(holding, 2)
    for cell in "ab":
        assert log_of(cell, 1).endswith("saved\n")
        assert not any(map(alive, processes_of(cell, 1)))
    hold.unlink()
    swept(grid, "--engine", engine, "--jobs", 2)
    assert [len(starts(*run)) for run in ALL] == [2, 2, 1, 1]


def test_after_kill_9_runs_save_or_go_on_in_the_engines_queue(engine, grid, hold, holding):
    holding.kill()
    holding.communicate()
    queues = imported(ENGINES[engine]).queues
    if not queues:
        until(lambda: all(log_of(cell, 1).endswith("saved\n") for cell in "ab"))
        until(lambda: not any(alive(pid) for cell in "ab" for pid in processes_of(cell, 1)))
    process = background(grid, "--engine", engine, "--jobs", 2)
    until(lambda: all(len(starts(cell, 1)) == (1 if queues else 2) for cell in "ab"))
    hold.unlink()
    ended(process)
    assert [len(starts(*run)) for run in ALL] == ([1] * 4 if queues else [2, 2, 1, 1])


@pytest.mark.slow
def test_grids_that_are_killed_at_random_end_complete(engine, tmp_path, tiny_encoder, course_files):
    """Every grid has the numbers of one that nobody killed; no run has two processes.

    ``KILLS=20 make test-engines`` kills twenty times per engine. Without it, only ``local`` is
    tried, with three kills.
    """
    number = KILLS or 3 * (engine == "local")
    if number == 0:
        pytest.skip("takes minutes: KILLS=20 asks for it")
    draw = random.Random(engine)
    queues = imported(ENGINES[engine]).queues
    of_queue = ["requeue", "preempt"] if queues else []
    kinds = ["sweep", "run", *of_queue, *(["worker"] * (engine == "ray"))]
    trained_grid.write_grid(tmp_path, tiny_encoder, course_files, epochs=20)
    trained_grid.train(tmp_path, "local", "whole")
    killed: Counter[str] = Counter()
    grids = 0
    while killed.total() < number:
        grids += 1
        output = tmp_path / f"killed-{grids}"
        sweep = trained_grid.start(tmp_path, engine, output.name)
        latest = time.monotonic() + LONGEST
        with engine_kills.watched(output) as most:
            while sweep.poll() != 0:
                assert time.monotonic() < latest, f"grid {grids} does not end; killed: {killed}"
                if sweep.poll() is not None:  # killed, or a run was killed too often
                    sweep.communicate()
                    sweep = trained_grid.start(tmp_path, engine, output.name)
                time.sleep(draw.uniform(0.5, 6))
                if queues:
                    engine_kills.hurry()
                kind = kinds[killed.total() % len(kinds)]
                if killed.total() < number and sweep.poll() is None:
                    killed[kind] += engine_kills.strike(kind, sweep, output)
        sweep.communicate()
        assert trained_grid.numbers(tmp_path, output.name) == trained_grid.numbers(
            tmp_path, "whole"
        )
        assert len(most) == 6 and set(most.values()) == {1}
    print(f"{engine}: {grids} grids, killed: {dict(killed)}")
