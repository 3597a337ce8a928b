"""`ablate` with a stand-in for training: who trains what, when, and what is said and left."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import run_multitask
from multitask.config import load_config
from multitask.sweep import claims, pool
from multitask.sweep.grid import load_grid
from multitask.sweep.pool import environment, train_all
from multitask.sweep.progress_bars import Progress, steps_done
from multitask.sweep.runs import Failure, error_line
from multitask.sweep.sweep import sweep
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support import comparison_stand_in

FAKE = ROOT / "tests" / "support" / "fake_trainer.py"
GRID = f"""
base: {ROOT / "configs" / "cs224n_minilm.yaml"}
seeds: [1, 2]
cells: {{a: {{}}, b: {{training.epochs: 3}}}}
"""
DRIVER = """
import sys
from pathlib import Path
from multitask.sweep import claims, pool
from tests.support import comparison_stand_in
pool.PROGRAM, pool.TICK, claims.RENEW_EVERY = Path(sys.argv[1]), 0.02, 0.05
for name in ("compare", "score_tables"):
    sys.modules[f"multitask.reporting.comparison.{name}"] = comparison_stand_in
import run_multitask
sys.exit(run_multitask.main(sys.argv[2:]))
"""
ALL = [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A grid file in an empty working directory; training is the stand-in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(pool, "PROGRAM", FAKE)
    monkeypatch.setattr(pool, "TICK", 0.02)
    for name in ("compare", "score_tables"):
        monkeypatch.setitem(
            sys.modules, f"multitask.reporting.comparison.{name}", comparison_stand_in
        )
    file = tmp_path / "g.yaml"
    file.write_text(GRID)
    return file


def ablate(*arguments: object) -> int:
    return run_multitask.main(["ablate", *map(str, arguments)])


def starts(cell: str, seed: int, output: Path = Path("runs/g")) -> list[str]:
    """The commands with which a run was started, from its log."""
    log = output / "cells" / cell / "logs" / f"seed-{seed}.log"
    if not log.exists():
        return []
    return [line for line in log.read_text().splitlines() if line.startswith("# start ")]


def background(*arguments: object) -> subprocess.Popen[str]:
    """`ablate` in a process of its own, with the stand-in for training."""
    command = [sys.executable, "-c", DRIVER, str(FAKE), "ablate", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )


def until(condition: Callable[[], object]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never came to that")


def claim_of(cell: str, seed: int, number: int = 1) -> Path:
    return Path(f"runs/g/cells/{cell}/seed-{seed}.claim-{number}")


def test_every_run_once_then_a_table_and_a_second_start_skips(grid, capsys):
    assert ablate(grid, "--jobs", 2) == 0
    output = capsys.readouterr().out
    found = re.findall(r"^cell (\d)/4 (\w) seed (\d): mean (\S+) \(\d+ s\)$", output, re.MULTILINE)
    assert [number for number, *_ in found] == ["1", "2", "3", "4"]
    assert sorted((cell, int(seed)) for _, cell, seed, _ in found) == sorted(ALL)
    assert all(float(mean) == int(seed) / 10 for *_, seed, mean in found)
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert (comparison["baseline"], comparison["failed"]) == ("a", [])
    assert {g["name"]: g["seeds"] for g in comparison["groups"]} == {"a": [1, 2], "b": [1, 2]}
    cells = {"key": "cells", "labels": ["a", "b"], "values": [{}, {"training.epochs": 3}]}
    assert comparison["axes"] == [cells]
    assert [group["point"] for group in comparison["groups"]] == [{"cells": "a"}, {"cells": "b"}]
    assert "written: runs/g/table.md" in output
    assert ablate(grid) == 0
    assert "4 of 4 runs are finished already" in capsys.readouterr().out
    assert [len(starts(*run)) for run in ALL] == [1, 1, 1, 1]
    assert not list(Path("runs/g").rglob("*.claim-*"))


def test_the_saved_grid_goes_on_in_the_same_directory(grid, capsys):
    assert ablate(grid, "training.lr=1e-4") == 0
    assert ablate("runs/g/grid.yaml", "--output", "runs/g") == 0
    assert "4 of 4 runs are finished already" in capsys.readouterr().out
    assert load_config("runs/g/cells/b/seed-2/config.yaml").training.lr == 1e-4


def test_weights_go_and_the_result_stays(grid):
    assert ablate(grid) == 0
    names = {path.name for path in Path("runs/g/cells/a/seed-1").iterdir()}
    assert names == {"config.yaml", "figures", "metrics.jsonl", "report.json", "report.md"}


def test_keep_weights_keeps_them_through_a_later_start_without_it(grid):
    assert ablate(grid, "--keep-weights") == 0
    assert ablate(grid) == 0
    for cell, seed in ALL:
        run = Path(f"runs/g/cells/{cell}/seed-{seed}")
        assert all((run / name / "file").exists() for name in ("weights", "checkpoints", "encoder"))


def test_a_failed_run_is_named_and_the_rest_goes_on(grid, capsys, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "b")
    assert ablate(grid) == 2
    captured = capsys.readouterr()
    log = "runs/g/cells/b/logs/seed-1.log"
    assert f"cell 2/4 b seed 1: failed: the data are bad; log: {log}" in captured.out
    assert "cell 3/4 a seed 2: mean 0.200" in captured.out
    (line,) = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert "2 of 4 runs failed: b seed 1, b seed 2; " in line
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert [group["name"] for group in comparison["groups"]] == ["a"]
    assert comparison["failed"][0] == {"cell": "b", "seed": 1, "error": "the data are bad"}
    assert "b seed 1: the data are bad" in Path("runs/g/table.md").read_text()
    monkeypatch.delenv("FAKE_FAIL")
    assert ablate(grid) == 0
    assert "2 of 4 runs are finished already" in capsys.readouterr().out
    assert [len(starts(*run)) for run in ALL] == [1, 2, 1, 2]


def test_where_runs_cannot_be_compared_an_older_table_is_named(grid, capsys, monkeypatch):
    def refused(*arguments, **options):
        raise UserError("other dev rows (1,101 against 120)")

    assert ablate(grid) == 0
    monkeypatch.setattr(comparison_stand_in, "compare", refused)
    capsys.readouterr()
    assert ablate(grid) == 2
    line = "error: other dev rows (1,101 against 120); runs/g/table.md is of an earlier start\n"
    assert capsys.readouterr().err.endswith(line)


def test_without_a_baseline_there_is_no_table(grid, capsys, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "a")
    assert ablate(grid) == 2
    assert "no table: no run of the baseline a is finished" in capsys.readouterr().out
    assert not Path("runs/g/table.md").exists()


def test_a_changed_cell_is_refused_before_anything_runs(grid, capsys):
    assert ablate(grid) == 0
    grid.write_text(GRID.replace("epochs: 3", "epochs: 5").replace("a: {}", "new: {}, a: {}"))
    assert ablate(grid) == 2
    error = capsys.readouterr().err
    assert "cell b seed 1: runs/g/cells/b/seed-1 was trained with another config: " in error
    assert "training.epochs (3 -> 5)" in error
    assert not Path("runs/g/cells/new").exists()


def test_renamed_cells_are_left_alone(grid, capsys):
    assert ablate(grid) == 0
    grid.write_text(GRID.replace("b: {", "c: {"))
    assert ablate(grid) == 0
    assert "2 of 4 runs are finished already" in capsys.readouterr().out
    assert Path("runs/g/cells/b/seed-1/report.json").exists()
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert [group["name"] for group in comparison["groups"]] == ["a", "c"]


def test_a_foreign_directory_is_not_touched(grid, capsys):
    Path("mine").mkdir()
    Path("mine/notes.txt").touch()
    assert ablate(grid, "--output", "mine") == 2
    assert "mine is not empty and holds no ablation" in capsys.readouterr().err
    assert ablate(grid, "--output", "mine/notes.txt") == 2
    assert "is a file" in capsys.readouterr().err
    assert ablate(grid, "--jobs", 0) == 2
    assert "--jobs: expected" in capsys.readouterr().err
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


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
    until(lambda: starts("a", 1) and starts("b", 1))
    second = background(grid)
    line = second.stdout.readline()
    pid = json.loads(claim_of("a", 1).read_text())["processes"][0][0]
    assert line.startswith("held by other processes, to be waited for: a seed 1 (host ")
    assert f"process {pid}, " in line and "b seed 1" in line
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
    until(lambda: len(json.loads(claim_of("a", 1).read_text())["processes"]) == 2)
    child = json.loads(claim_of("a", 1).read_text())["processes"][1][0]
    process.kill()
    process.wait()
    until(lambda: not claims.alive(child))
    grid.with_name("hold").unlink()
    assert ablate(grid) == 0
    assert [len(starts(*run)) for run in ALL] == [2, 1, 1, 1]
    assert [start.endswith(" --resume") for start in starts("a", 1)] == [False, True]
    assert not list(Path("runs/g").rglob("*.claim-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_children_and_says_how_to_go_on(number, grid, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    process = background(grid, "--jobs", 2)
    until(lambda: all(Path(f"runs/g/cells/{c}/seed-1/metrics.jsonl").exists() for c in "ab"))
    processes = [json.loads(claim_of(c, 1).read_text())["processes"] for c in "ab"]
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "error: interrupted: 0 of 4 runs are finished in runs/g; go on with the same" in output
    assert not any(claims.alive(pid) for found in processes for pid, _ in found)
    assert claims.try_claim(Path("runs/g/cells/a/seed-1")) is not None  # freed, for every host


def test_an_interrupted_sweep_leaves_the_table_of_what_is_finished(grid, monkeypatch):
    assert ablate(grid) == 0
    shutil.rmtree("runs/g/cells/b/seed-2")
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    process = background(grid)
    until(lambda: Path("runs/g/cells/b/seed-2/metrics.jsonl").exists())
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Interrupted: 3 of 4 runs are finished." in output
    saved = json.loads(Path("runs/g/comparison.json").read_text())
    assert [group["seeds"] for group in saved["groups"]] == [[1, 2], [1]]
    assert saved["notes"] == ["Interrupted: 3 of 4 runs are finished."]


def test_an_interrupted_sweep_leaves_the_table_to_those_that_go_on(grid, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    both = [background(grid), background(grid)]
    until(lambda: sum(len(starts(*run)) for run in ALL) == 2)
    both[0].send_signal(signal.SIGTERM)
    said, _ = both[0].communicate(timeout=60)
    assert both[0].returncode == 2 and "no table: other processes go on in runs/g" in said
    assert not Path("runs/g/table.md").exists()
    grid.with_name("hold").unlink()
    assert both[1].communicate(timeout=60) and both[1].returncode == 0
    assert json.loads(Path("runs/g/comparison.json").read_text())["notes"] == []


def test_a_failed_run_that_another_process_has_trained_since_is_no_failure(grid):
    def train(runs, progress, failed):
        train_all(runs, progress, failed, slots=1, keep_weights=False)
        failed.append(Failure(runs[1], "killed"))

    sweep(load_grid(grid), Path("runs/g"), train, jobs=1)
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert (comparison["failed"], comparison["notes"]) == ([], [])


def test_the_table_of_a_later_grid_is_left_alone(grid, capsys):
    def train(runs, progress, failed):
        grid.write_text(GRID.replace("[1, 2]", "[1, 2, 3]"))
        assert ablate(grid) == 0

    sweep(load_grid(grid), Path("runs/g"), train, jobs=1)
    assert "no table: another process has begun another grid" in capsys.readouterr().out
    comparison = json.loads(Path("runs/g/comparison.json").read_text())
    assert [group["seeds"] for group in comparison["groups"]] == [[1, 2, 3]] * 2


def test_failures_before_an_interruption_are_named(grid):
    def train(runs, progress, failed):
        train_all(runs[:1], progress, failed, slots=1, keep_weights=False)
        failed.append(Failure(runs[1], "the data are bad"))
        raise KeyboardInterrupt

    with pytest.raises(UserError, match="interrupted: 1 of 4"):
        sweep(load_grid(grid), Path("runs/g"), train, jobs=1)
    notes = json.loads(Path("runs/g/comparison.json").read_text())["notes"]
    assert notes[0] == "Failed, and not in the table: b seed 1: the data are bad"


def test_a_run_that_was_killed_after_its_report_is_settled_not_trained_again(grid, capsys):
    assert ablate(grid, "--keep-weights") == 0
    claim_of("b", 2).write_text(json.dumps({"host": claims.socket.gethostname(), "processes": []}))
    capsys.readouterr()
    assert ablate(grid) == 0
    output = capsys.readouterr().out
    assert "3 of 4 runs are finished already" in output
    assert "cell 4/4 b seed 2: mean 0.200 (finished before)" in output
    assert len(starts("b", 2)) == 1
    assert not Path("runs/g/cells/b/seed-2/weights").exists()
    assert Path("runs/g/cells/b/seed-1/weights").exists()
    assert not claim_of("b", 2).exists()


def test_a_run_that_another_machine_took_over_is_stopped_here(grid, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", str(grid.with_name("hold")))
    grid.with_name("hold").touch()
    grid.write_text(GRID.replace("[1, 2]", "[1]").replace(", b: {training.epochs: 3}", ""))
    process = background(grid)
    until(lambda: Path("runs/g/cells/a/seed-1/metrics.jsonl").exists())
    (child,) = [p for p, _ in json.loads(claim_of("a", 1).read_text())["processes"][1:]]
    claim_of("a", 1, 2).write_text(json.dumps({"host": "another", "processes": [[7, None]]}))
    assert process.stdout.readline() == "a seed 1: taken over by host another, process 7\n"
    assert not claims.alive(child)
    assert process.stdout.readline().startswith("held by other processes, to be waited for: a")
    os.utime(claim_of("a", 1, 2), (0, 0))  # the other falls silent
    grid.with_name("hold").unlink()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "cell 1/1 a seed 1: mean 0.100" in output
    assert len(starts("a", 1)) == 2


def test_several_jobs_share_the_cores_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert "OMP_NUM_THREADS" not in environment(1)
    assert environment(3)["OMP_NUM_THREADS"] == "2"
    assert environment(20)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert environment(3)["OMP_NUM_THREADS"] == "5"


@pytest.mark.parametrize(
    ("log", "code", "line"),
    [
        ("# start 1\nerror: old\n# start 2\nerror: new\nmore\n", 2, "new"),
        ("# start 1\nerror: old\n# start 2\nTraceback\n  x\nKeyError: 3\n\n", 1, "KeyError: 3"),
        ("# start 1\n", 3, "exit code 3, and nothing said"),
        ("# start 1\nwords\n", -9, "killed by signal 9 (Killed)"),
    ],
)
def test_the_reason_of_a_failure_is_the_last_starts_error_line(log, code, line, tmp_path):
    (tmp_path / "x.log").write_text(log)
    assert error_line(tmp_path / "x.log", code) == line


PLAN = '{"event": "plan", "step": 0, "steps": 300, "epochs": 3.0}\n'
HALF = '{"event": "step", "step": 150, "epoch": 2.25}\n'  # the first stage has shorter epochs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        (PLAN, None),
        (PLAN[:20], None),
        (HALF, None),  # written before logs had a plan
        (PLAN + HALF, (150, 300, 2.25, 3.0)),
        (PLAN + HALF + '{"event": "sk', (150, 300, 2.25, 3.0)),
        (PLAN + HALF + '{"event": "stop", "step": 150}\n', (150, 300, 2.25, 3.0)),
        (PLAN + "x" * 9000 + "\n" + HALF, (150, 300, 2.25, 3.0)),
    ],
)
def test_how_far_a_run_is_stands_in_its_log(text, expected, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(text)
    assert steps_done(tmp_path) == expected
    assert steps_done(tmp_path / "nowhere") is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass for the bars of runs, in a list of one."""
    seconds = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: seconds[0])
    return seconds


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_are_for_a_terminal_and_lines_for_everyone(terminal, tmp_path, monkeypatch, capsys):
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    (tmp_path / "metrics.jsonl").write_text(PLAN + HALF)
    with Progress(5, 2) as progress:
        progress.skipped(2)
        progress.show([("a seed 1", tmp_path)])
        progress.settled("a seed 1", "mean 0.5 (3 s)")
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["2 of 5 runs are finished already", "cell 3/5 a seed 1: mean 0.5 (3 s)"]
    bars = stderr.getvalue()
    assert ("a seed 1, epoch 2.25/3" in bars and "150/300" in bars and "2/5" in bars) is terminal
    assert (bars == "") is not terminal


def test_a_runs_bar_tells_the_time_left_from_the_steps_it_saw(tmp_path, monkeypatch, clock):
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    with Progress(2, 1) as progress:

        def shown(name, step):
            log = tmp_path / name / "metrics.jsonl"
            log.parent.mkdir(exist_ok=True)
            log.write_text(PLAN + json.dumps({"event": "step", "step": step, "epoch": 1.5}) + "\n")
            stderr.truncate(0)
            progress.show([(name, log.parent)])
            return stderr.getvalue()

        clock[0] += 1000  # the data are read
        assert "[00:00<?]" in shown("a", 100)  # resumed here
        clock[0] += 60
        assert "[01:00<03:00]" in shown("a", 150)
        assert "[00:00<?]" in shown("b", 10)  # another run in this slot
        clock[0] += 60
        assert "[01:00<28:00]" in shown("b", 20)
