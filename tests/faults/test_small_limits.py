"""A full output, a deleted directory, few open files, small files: one line names the limit."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PROGRAM = [sys.executable, str(ROOT / "run_multitask.py")]
CHECK = ["check", str(ROOT / "configs" / "demo.yaml")]


@pytest.fixture
def train(tiny_overrides):
    """The words of a command that trains a tiny run; its directory comes last."""
    kept = [word for word in tiny_overrides if not word.startswith("output_dir=")]
    return [str(ROOT / "configs" / "cs224n.yaml"), *kept]


def complaint(arguments: list[str], **options: object) -> str:
    """The one line of a process that fails."""
    done = subprocess.run([*PROGRAM, *arguments], stderr=subprocess.PIPE, text=True, **options)
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2 and len(said) == 1 and "Traceback" not in done.stderr, done.stderr
    return said[0].removeprefix("error: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "command",
    [
        "--help",
        pytest.param("train", marks=pytest.mark.slow),
        pytest.param("evaluate", marks=pytest.mark.slow),
    ],
)
def test_a_full_standard_output_is_named(command, train, tiny_run, tmp_path):
    commands = {
        "--help": ["--help"],
        "train": [*train, f"output_dir={tmp_path}/new"],
        "evaluate": ["evaluate", str(tiny_run)],
    }
    with Path("/dev/full").open("w") as full:
        line = complaint(commands[command], stdout=full)
    assert line.startswith("standard output: No space left on device")


@pytest.mark.parametrize("command", ["--help", "check", "train"])
def test_a_deleted_working_directory(command, train, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    commands = {"--help": ["--help"], "check": CHECK, "train": train}
    line = complaint(
        commands[command], cwd=gone, preexec_fn=lambda: gone.rmdir(), stdout=subprocess.DEVNULL
    )
    assert line == "the working directory was deleted: change to another one"


@pytest.mark.slow
@pytest.mark.parametrize("most", [6, 7, 8, 9])
def test_few_open_files_are_named_or_suffice(most, train, tmp_path):
    done = subprocess.run(
        [*PROGRAM, *train, f"output_dir={tmp_path}/run", "training.max_steps=2"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or "Too many open files" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 1_000, 20_000])
def test_small_files_are_named(most, train, tmp_path):
    line = complaint(
        [*train, f"output_dir={tmp_path}/run"],
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )
    assert "File too large" in line or "No usable temporary directory" in line


def test_a_closed_standard_output_is_named():
    line = complaint(["--help"], preexec_fn=lambda: os.close(1))
    assert line == "standard output is closed: send it to a file or /dev/null"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_error_that_cannot_be_printed_has_its_exit_code():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*PROGRAM, "no.yaml"], stderr=full, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("world", ["x", "0"])
def test_a_number_of_processes_that_no_launcher_sets(world, train, tmp_path):
    environment = os.environ | {"WORLD_SIZE": world}
    line = complaint([*train, f"output_dir={tmp_path}/run"], env=environment)
    assert f"WORLD_SIZE={world}: expected a number of processes" in line
