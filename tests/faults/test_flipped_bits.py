"""One bit flipped in each file of a run and of a checkpoint: it is said, or nothing differs."""

import json
import random
import shutil
from pathlib import Path

import pytest

import run_multitask
from multitask.store.run_directory import RunDirectory
from multitask.training import trainer
from multitask.utils.errors import warn
from tests.support.run_files import events, results

# what no command reads again
UNREAD = {".png", ".md", ".html", ".csv"}


def files_of(directory: Path) -> list[Path]:
    return [
        file
        for file in sorted(directory.rglob("*"))
        if file.is_file() and file.suffix not in UNREAD and file.stat().st_size
    ]


def flip(file: Path, chance: random.Random) -> None:
    """Flip one bit of a file."""
    content = bytearray(file.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def said_of(arguments: list[str], capsys) -> tuple[int, str]:
    """Run a command; return its exit code and what it said on stderr and in its warnings."""
    warn.cache_clear()
    capsys.readouterr()
    code = run_multitask.main(arguments)  # any exception but ours is a traceback
    captured = capsys.readouterr()
    warnings = [line for line in captured.out.splitlines() if line.startswith("warning: ")]
    return code, "\n".join([captured.err, *warnings])


def check_scored(run, chance, capsys, count, files, flips) -> None:
    """Flip bits in a finished run and evaluate it."""
    expected = run.evaluation("dev").read_text()
    for file in files:
        content = file.read_bytes()
        for _ in range(flips):
            flip(file, chance)
            code, said = said_of(["evaluate", str(run.path)], capsys)
            assert code in (0, 2)
            if code == 2:
                assert said.count("error: ") == 1 and "Traceback" not in said
            elif run.evaluation("dev").read_text() != expected:
                assert file.name in said, f"{file}: other scores, and nothing is said"
            file.write_bytes(content)
            count("bits flipped in a finished run, which is evaluated")


@pytest.fixture
def finished(tiny_run, tmp_path) -> RunDirectory:
    run = RunDirectory(shutil.copytree(tiny_run, tmp_path / "run"))
    assert run_multitask.main(["evaluate", str(run.path)]) == 0
    return run


def test_a_finished_run(finished, capsys, count):
    read = [finished.config, finished.best, finished.weights_of(2), finished.checksums]
    read += [finished.encoder / "config.json", finished.encoder / "tokenizer.json"]
    check_scored(finished, random.Random(1), capsys, count, read, 2)


@pytest.mark.slow
def test_every_file_of_a_finished_run(finished, capsys, count):
    check_scored(finished, random.Random(2), capsys, count, files_of(finished.path), 8)


def check_reported(run, chance, capsys, count, files, flips) -> None:
    """Flip bits in a finished run and report it, with its curves."""
    command = ["report", str(run.path), "--output", str(run.path.parent / "report")]
    code, said = said_of(command, capsys)
    assert (code, said) == (0, "")
    for file in files:
        intact = file.read_bytes()
        for _ in range(flips):
            flip(file, chance)
            code, said = said_of(command, capsys)
            assert code in (0, 2)
            assert said.count("error: ") == (code == 2)
            assert file.name in said, f"{file}: nothing is said"
            file.write_bytes(intact)
            count("bits flipped in a finished run, which is reported")


def reported(run: RunDirectory) -> list[Path]:
    """The files that a report reads."""
    return [run.config, run.report, run.metrics, *run.predictions.glob("*.dev.jsonl")]


def test_the_report_of_a_finished_run(finished, capsys, count):
    files = [finished.metrics, finished.predictions_of("sts", "dev")]
    check_reported(finished, random.Random(5), capsys, count, files, 2)


@pytest.mark.slow
def test_every_file_of_the_report_of_a_finished_run(finished, capsys, count):
    check_reported(finished, random.Random(6), capsys, count, reported(finished), 20)


@pytest.fixture
def interrupted(tiny_overrides, tmp_path, monkeypatch):
    """The command of a run that was interrupted in its 14th step, and what it gives in the end."""
    command = ["configs/cs224n.yaml", *tiny_overrides, "training.frozen_baseline=false"]
    run = RunDirectory(tmp_path / "run")
    assert run_multitask.main(command) == 0
    expected = events(run.path), results(run.path)
    shutil.rmtree(run.path)
    original, calls = trainer.train_step, []

    def interrupting(*args, **more):
        calls.append(1)
        if len(calls) == 14:
            raise KeyboardInterrupt
        return original(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train_step", interrupting)
        run_multitask.main(command)
    assert run.saved_checkpoints() and not run.finished
    return command, run, expected


def check_resumed(case, tmp_path, chance, capsys, count, names, flips) -> None:
    """Flip bits in a run that was interrupted and resume it."""
    command, run, (log, scores) = case
    intact = shutil.copytree(run.path, tmp_path / "intact")
    names = names or [file.relative_to(run.path).as_posix() for file in files_of(run.path)]
    for name in names:
        for _ in range(flips):
            shutil.rmtree(run.path)
            shutil.copytree(intact, run.path)
            (file,) = run.path.glob(name)
            flip(file, chance)
            code, said = said_of([*command, "--resume"], capsys)
            assert code in (0, 2)
            count("bits flipped in an interrupted run, which is resumed")
            if code == 2:
                assert said.count("error: ") == 1 and "Traceback" not in said
                continue
            same = results(run.path) == scores
            try:
                same = same and events(run.path) == log
            except (json.JSONDecodeError, UnicodeDecodeError):
                same = False
            assert same or Path(name).name in said or "falling back" in said, (
                f"{name}: other results, and nothing is said"
            )


def test_an_interrupted_run(interrupted, tmp_path, capsys, count):
    newest = interrupted[1].saved_checkpoints()[-1].name
    names = [f"checkpoints/{newest}/state.json", "metrics.jsonl", "baselines.json"]
    check_resumed(interrupted, tmp_path, random.Random(3), capsys, count, names, 1)


@pytest.mark.slow
def test_every_file_of_an_interrupted_run(interrupted, tmp_path, capsys, count):
    check_resumed(interrupted, tmp_path, random.Random(4), capsys, count, None, 4)
