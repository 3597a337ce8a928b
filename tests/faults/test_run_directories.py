"""Run directories that a kill, a link or a second process left in an odd state."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import run_multitask
from multitask.store.lock import holder
from multitask.store.run_directory import RunDirectory
from multitask.utils.errors import warn
from tests.conftest import ROOT
from tests.support.kill import kill_inside
from tests.support.messages import complaint
from tests.support.processes import TORCHRUN, launch
from tests.support.run_files import results

SHORT = ["training.max_steps=2", "training.frozen_baseline=false"]
VICTIM = "this file is outside of the run"
ENDS = (("", ""), (".", ".tmp"))  # the file, and a scratch file as it once was named


@pytest.fixture
def command(tiny_overrides) -> list[str]:
    return ["configs/cs224n.yaml", *tiny_overrides, *SHORT]


@pytest.fixture
def victim(tmp_path) -> Path:
    """A file that no command may touch."""
    file = tmp_path / "victim"
    file.write_text(VICTIM)
    return file


def hidden(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob(".*")]


@pytest.mark.parametrize(
    ("left", "option"),
    [
        ([], []),
        ([".multitask-ab12.tmp/run.json"], ["--resume"]),
        ([".multitask-ab12.tmp/run.json", ".run.json.tmp"], ["--overwrite"]),
        ([".run.json.tmp"], []),
    ],
)
def test_a_directory_that_a_killed_start_left_is_taken_up(left, option, command, tmp_path):
    (tmp_path / "run").mkdir()
    for name in left:
        (tmp_path / "run" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "run" / name).touch()
    assert run_multitask.main([*command, *option]) == 0
    assert not hidden(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "when"),
    [
        ("store.prepare_run:save_config", "before"),
        ("store.prepare_run:save_config", "after"),
        ("store.files:_exchange", "before"),
        ("store.files:_exchange", "after"),
        ("store.prepare_run:start_directory", "after"),
        ("training.train_run:keep_encoder", "before"),
    ],
)
def test_overwrite_that_is_killed_leaves_a_run(place, when, command, tmp_path):
    assert run_multitask.main(command) == 0
    run = RunDirectory(tmp_path / "run")
    before = results(run.path)
    kill_inside(f"multitask.{place}", when, 1, [*command, "--overwrite"])
    assert run.holds_run
    if run.finished:
        assert results(run.path) == before
    assert run_multitask.main([*command, "--overwrite"]) == 0
    assert results(run.path) == before
    assert not hidden(tmp_path)


# --- links ---


def test_an_output_directory_behind_a_link(command, tmp_path, capsys):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    for option in ([], ["--overwrite"], ["--resume"]):
        assert run_multitask.main([*command, *option]) == 0
        assert (tmp_path / "run").is_symlink() and (tmp_path / "disk" / "report.json").is_file()
    assert not hidden(tmp_path)
    assert run_multitask.main(["evaluate", str(tmp_path / "run")]) == 0
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert "link to nothing" in complaint(capsys, *command, f"output_dir={tmp_path / 'gone'}")


@pytest.mark.parametrize(
    ("command", "place"),
    [
        *(("evaluate", f"{hidden}evaluation-dev.json{end}") for hidden, end in ENDS),
        *(("predict", f"predictions/{hidden}sst.dev.jsonl{end}") for hidden, end in ENDS),
        *(("attention", f"{hidden}attention.json{end}") for hidden, end in ENDS),
        ("attention", "attention.png"),
    ],
)
def test_a_command_writes_through_no_link(command, place, copy, victim):
    (copy.path / place).unlink(missing_ok=True)
    (copy.path / place).symlink_to(victim)
    text = ["--text", "a film"] if command == "attention" else []
    assert run_multitask.main([command, str(copy.path), *text]) == 0
    assert victim.read_text() == VICTIM


def test_predict_refuses_a_directory_that_is_a_link(copy, tmp_path, capsys):
    copy.predictions.rename(tmp_path / "elsewhere")
    copy.predictions.symlink_to(tmp_path / "elsewhere")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "elsewhere").iterdir()}
    assert "predictions is a link" in complaint(capsys, "predict", copy.path, "--again")
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "elsewhere").iterdir()}


@pytest.mark.parametrize(
    "name",
    ["weights", "checkpoints", "encoder", "figures", "predictions", "tensorboard", "trackers"],
)
def test_training_refuses_a_directory_that_is_a_link(name, command, tmp_path, capsys):
    run = RunDirectory(tmp_path / "run")
    run.write_text(run.marker, "{}")
    (tmp_path / "elsewhere").mkdir()
    (run.path / name).symlink_to(tmp_path / "elsewhere")
    if name == "tensorboard":
        pytest.importorskip("tensorboard")
        command = [*command, "training.tensorboard=true"]
    capsys.readouterr()
    assert run_multitask.main(command) == 2
    assert f"{name} is a link" in capsys.readouterr().err.splitlines()[-1]
    assert not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("name", ["run.json", ".run.json.tmp", "metrics.jsonl", "report.md"])
def test_training_writes_through_no_link(name, command, tmp_path, victim):
    run = RunDirectory(tmp_path / "run")
    run.write_text(run.marker, "{}")
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(victim)
    run_multitask.main(command)
    assert victim.read_text() == VICTIM


# --- damage ---


def test_damage_that_resume_mends(command, tmp_path, capsys):
    """A stray file, damaged baselines, an encoder's file, weights that a checkpoint has too."""
    assert run_multitask.main(command) == 0
    copy = RunDirectory(tmp_path / "run")
    (copy.weights / "step-abc.safetensors").touch()
    copy.baselines.write_text("{}")
    tokenizer = (copy.encoder / "tokenizer.json").read_bytes()
    (copy.encoder / "tokenizer.json").write_bytes(tokenizer[:-1])
    assert "'tokenizer.json' is damaged" in complaint(capsys, "evaluate", copy.path)
    before = results(copy.path)
    os.truncate(copy.weights_of(2), 1000)
    assert run_multitask.main([*command, "--resume"]) == 0
    said = capsys.readouterr().err
    assert "baselines.json is damaged: the baselines are measured again" in said
    assert f"{copy.weights_of(2)} is missing or damaged" in said
    assert results(copy.path) == before
    assert (copy.encoder / "tokenizer.json").read_bytes() == tokenizer


def test_damaged_weights_are_scored_from_the_checkpoint(copy, capsys):
    assert run_multitask.main(["evaluate", str(copy.path)]) == 0
    before = copy.evaluation("dev").read_text()
    content = bytearray(copy.weights_of(2).read_bytes())
    content[len(content) // 2] ^= 64
    copy.weights_of(2).write_bytes(content)
    assert run_multitask.main(["evaluate", str(copy.path)]) == 0
    assert "are used" in capsys.readouterr().err
    assert copy.evaluation("dev").read_text() == before
    shutil.rmtree(copy.checkpoints)
    assert "its checksum is another one" in complaint(capsys, "evaluate", copy.path)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_between_a_file_and_its_checksum_is_no_damage(when, command, tmp_path, capsys):
    """Also a second finish of a run leaves checksums that are right."""
    assert run_multitask.main(command) == 0
    run = RunDirectory(tmp_path / "run")
    run.predictions_of("sst", "test").unlink()  # or there would be nothing to do
    report = ["report", str(run.path), "--output", str(tmp_path / "report")]
    seal = "multitask.store.run_directory:RunDirectory.seal"
    kill_inside(seal, when, 1, [*command, "--resume"])
    for again in (report, [*command, "--resume"], report):
        warn.cache_clear()
        capsys.readouterr()
        assert run_multitask.main(again) == 0
        captured = capsys.readouterr()
        assert "damaged" not in captured.out + captured.err
    assert "metrics.jsonl" in run.checksums.read_text() and run.is_intact(run.metrics)


# --- several processes ---


def test_where_one_of_two_ranks_refuses_both_end(copy, command):
    """Without a launcher, which would end the second one."""
    ranks = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29765"}
    processes = [
        subprocess.Popen(
            [sys.executable, "run_multitask.py", *command],
            cwd=ROOT,
            env={**os.environ, **ranks, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [2, 2]
    assert "holds a run already" in said[0] and "Traceback" not in "".join(said)


FAILING = """
import os, sys
from multitask.training import train_run
def fail(*args, **more):
    raise {kind}("no more")
if os.environ["RANK"] == "{rank}":
    train_run.{function} = fail
import run_multitask
sys.exit(run_multitask.main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["OSError", "RuntimeError"])
@pytest.mark.parametrize(("function", "rank"), [("keep_encoder", 0), ("run_baselines", 1)])
def test_where_one_of_two_ranks_fails_both_end(function, rank, kind, command, tmp_path):
    script = tmp_path / "failing.py"
    script.write_text(FAILING.format(kind=kind, rank=rank, function=function))
    result = launch(TORCHRUN, script, *command)
    assert result.returncode not in (0, -signal.SIGKILL), result.stderr


@pytest.mark.parametrize("swap", [True, False])
def test_an_overwrite_owns_the_new_directory_before_others_see_it(swap, copy, command, monkeypatch):
    from multitask.store import files

    exchange, seen = files._exchange, []

    def watched(made: Path, target: Path) -> bool:
        if target != copy.path:
            return exchange(made, target)
        seen.append(holder(RunDirectory(made).lock))
        done = swap and exchange(made, target)
        seen.append(holder(copy.lock))
        return done

    monkeypatch.setattr(files, "_exchange", watched)
    words = [word for word in command if not word.startswith("output_dir=")]
    assert run_multitask.main([*words, f"output_dir={copy.path}", "--overwrite"]) == 0
    assert len(seen) == 2 and all(f"process {os.getpid()}" in name for name in seen)
    assert copy.lock.read_text() == ""
