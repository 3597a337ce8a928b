"""Four processes of one command at the same time: each succeeds or says why not in one line.

What they leave is what a single process leaves.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from multitask.store.run_directory import RunDirectory
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

# the command, its words, and whether each process must succeed: others may find that one was faster
COMMANDS = {
    "predict": (["predict", "{run}"], True),
    "evaluate": (["evaluate", "{run}"], True),
    "attention": (["attention", "{run}", "--text", "a film"], True),
    "report": (["report", "{run}", "--output", "{out}"], True),
    "index": (["index", "{run}", "--texts", "{texts}", "--out", "{out}"], False),
    "index --overwrite": (
        ["index", "{run}", "--texts", "{texts}", "--out", "{out}", "--overwrite"],
        True,
    ),
    "export": (
        ["export", "{run}", "{out}", "--format", "transformers", "--task", "sst", "--encoder-only"],
        False,
    ),
}
# drawn with a date, or without an order that is the same in each process
NOT_COMPARED = {".svg"}


def contents(*directories: Path) -> dict[str, bytes]:
    return {
        str(file): b"" if file.suffix in NOT_COMPARED else file.read_bytes()
        for directory in directories
        for file in sorted(directory.rglob("*"))
        if file.is_file() and file.name != "checksums"  # it also lists the versions before
    }


def at_once(command: list[str], count: int) -> list[tuple[int, str]]:
    """Start processes; return the exit code of each and what it said on stderr."""
    processes = [
        subprocess.Popen(
            [sys.executable, "run_multitask.py", *command],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    said = [process.communicate(timeout=240)[1] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


@pytest.mark.parametrize("name", COMMANDS)
def test_four_processes_leave_what_one_leaves(name, tiny_run, tmp_path, count):
    if name.startswith("index"):
        pytest.importorskip("faiss")
    run, out = shutil.copytree(tiny_run, tmp_path / "run"), tmp_path / "out"
    (tmp_path / "texts.txt").write_text("a film\na dog\nthe red house\n" * 50)
    words, all_succeed = COMMANDS[name]
    places = {"run": run, "out": out, "texts": tmp_path / "texts.txt"}
    command = [word.format(**places) for word in words]
    ((code, said),) = at_once(command, 1)
    assert code == 0, said
    expected = contents(run, out)
    if not name.endswith("--overwrite"):
        shutil.rmtree(out, ignore_errors=True)
    actual = at_once(command, 4)
    for code, text in actual:
        assert code == 0 or (text.count("error: ") == 1 and not all_succeed), text
        assert "Traceback" not in text
        count("commands of which four run at once")
    assert 0 in [code for code, _ in actual]
    assert contents(run, out) == expected
    assert not list(tmp_path.rglob(".*"))
    files = RunDirectory(run)
    assert not any(map(files.is_changed, files.predictions.glob("*.jsonl")))
