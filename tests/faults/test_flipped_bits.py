"""One bit flipped in each file of a run and of a checkpoint: it is said, or nothing differs."""

import json
import random
import shutil
from pathlib import Path

import pytest

import run_multitask
from multitask.store.run_directory import RunDirectory
from multitask.utils.errors import warn
from tests.support.kill import interrupt_at
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


@pytest.fixture
def finished(tiny_run, tmp_path) -> RunDirectory:
    run = RunDirectory(shutil.copytree(tiny_run, tmp_path / "run"))
    assert run_multitask.main(["evaluate", str(run.path)]) == 0
    return run


def chosen(run: RunDirectory) -> list[Path]:
    """Some of the files that an evaluation reads."""
    encoder = [run.encoder / "config.json", run.encoder / "tokenizer.json"]
    return [run.config, run.best, run.weights_of(2), run.checksums, *encoder]


def reported(run: RunDirectory) -> list[Path]:
    """The files that a report reads."""
    return [run.config, run.report, run.metrics, *run.predictions.glob("*.dev.jsonl")]


@pytest.mark.parametrize(
    ("files", "seed", "flips"),
    [
        (chosen, 1, 2),
        pytest.param(lambda run: files_of(run.path), 2, 8, marks=pytest.mark.slow),
    ],
)
def test_a_finished_run_that_is_evaluated(files, seed, flips, finished, capsys, count):
    expected, chance = finished.evaluation("dev").read_text(), random.Random(seed)
    for file in files(finished):
        content = file.read_bytes()
        for _ in range(flips):
            flip(file, chance)
            code, said = said_of(["evaluate", str(finished.path)], capsys)
            assert code in (0, 2) and said.count("error: ") == (code == 2)
            if code == 0 and finished.evaluation("dev").read_text() != expected:
                assert file.name in said, f"{file}: other scores, and nothing is said"
            file.write_bytes(content)
            count("bits flipped in a finished run, which is evaluated")


@pytest.mark.parametrize(
    ("files", "seed", "flips"),
    [
        (lambda run: [run.metrics, run.predictions_of("sts", "dev")], 5, 2),
        pytest.param(reported, 6, 20, marks=pytest.mark.slow),
    ],
)
def test_a_finished_run_that_is_reported(files, seed, flips, finished, tmp_path, capsys, count):
    """With its curves."""
    chance = random.Random(seed)
    command = ["report", str(finished.path), "--output", str(tmp_path / "report")]
    assert said_of(command, capsys) == (0, "")
    for file in files(finished):
        intact = file.read_bytes()
        for _ in range(flips):
            flip(file, chance)
            code, said = said_of(command, capsys)
            assert code in (0, 2) and said.count("error: ") == (code == 2)
            assert file.name in said, f"{file}: nothing is said"
            file.write_bytes(intact)
            count("bits flipped in a finished run, which is reported")


@pytest.fixture
def interrupted(tiny_overrides, tmp_path, monkeypatch):
    """The command of a run that was interrupted in its 14th step, and what it gives in the end."""
    command = ["configs/cs224n.yaml", *tiny_overrides, "training.frozen_baseline=false"]
    run = RunDirectory(tmp_path / "run")
    assert run_multitask.main(command) == 0
    expected = events(run.path), results(run.path)
    shutil.rmtree(run.path)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 14)
        run_multitask.main(command)
    assert run.saved_checkpoints() and not run.finished
    return command, run, expected


def some_files(run: RunDirectory) -> list[Path]:
    return [run.saved_checkpoints()[-1] / "state.json", run.metrics, run.baselines]


@pytest.mark.parametrize(
    ("files", "seed", "flips"),
    [
        (some_files, 3, 1),
        pytest.param(lambda run: files_of(run.path), 4, 4, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_run(files, seed, flips, interrupted, tmp_path, capsys, count):
    command, run, (log, scores) = interrupted
    intact, chance = shutil.copytree(run.path, tmp_path / "intact"), random.Random(seed)
    for file in files(run):
        for _ in range(flips):
            shutil.rmtree(run.path)
            shutil.copytree(intact, run.path)
            flip(file, chance)
            code, said = said_of([*command, "--resume"], capsys)
            assert code in (0, 2)
            count("bits flipped in an interrupted run, which is resumed")
            if code == 2:
                assert said.count("error: ") == 1
                continue
            same = results(run.path) == scores
            try:
                same = same and events(run.path) == log
            except (json.JSONDecodeError, UnicodeDecodeError):
                same = False
            assert same or file.name in said or "falling back" in said, (
                f"{file}: other results, and nothing is said"
            )
