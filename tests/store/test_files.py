"""Files that are complete or absent: modes, failures, kills, and several writers at once."""

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from multitask.store import files
from multitask.store.files import (
    entries,
    finish_replacing,
    hold,
    remove_scraps,
    replacing,
    write_json,
    write_text,
)
from multitask.utils.errors import UserError
from tests.conftest import ROOT


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path):
    write_text(tmp_path / "file", "old")
    for name in ("file", "absent"):
        with pytest.raises(KeyboardInterrupt), replacing(tmp_path / name) as scratch:
            scratch.write_text("half")
            assert [path.name for path in entries(tmp_path)] == ["file"]
            raise KeyboardInterrupt
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "old"


def test_a_directory_takes_the_place_of_an_older_one(tmp_path):
    for text in ("first", "second"):
        with replacing(tmp_path / "made") as scratch:
            scratch.mkdir()
            (scratch / text).touch()
            (scratch / "deep").mkdir()
            (scratch / "deep" / text).touch()
    assert names(tmp_path) == ["made"] and names(tmp_path / "made") == ["deep", "second"]
    assert names(tmp_path / "made" / "deep") == ["second"]


def test_scratch_names_cannot_be_foreseen_and_their_directory_is_private(tmp_path):
    seen = set()
    for _ in range(3):
        with replacing(tmp_path / "x.json") as scratch:
            assert scratch.name == "x.json" and scratch.parent.parent == tmp_path
            assert scratch.parent.stat().st_mode & 0o777 == 0o700
            seen.add(scratch.parent.name)
            scratch.touch()
    assert len(seen) == 3


def test_a_file_that_a_link_points_to_is_not_written(tmp_path):
    (tmp_path / "other").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "other").read_text() == "mine"
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "link").read_text() == "new"


def test_an_error_names_the_file_that_was_to_be_written(tmp_path):
    (tmp_path / "file").touch()
    for file in (tmp_path / "gone" / "x.txt", tmp_path / "file" / "x.txt"):
        with pytest.raises(OSError, match=re.escape(repr(str(file)))):
            write_text(file, "x")
    with pytest.raises(IsADirectoryError) as caught, replacing(tmp_path / "y") as scratch:
        scratch.mkdir()
        scratch.write_text("a directory")
    assert caught.value.filename == str(tmp_path / "y")
    with pytest.raises(FileNotFoundError, match="elsewhere"), replacing(tmp_path / "y"):
        (tmp_path / "elsewhere").read_text()


KILLED = """
import os, signal, sys
from pathlib import Path
from multitask.store import files
from multitask.store.files import replacing
with replacing(Path(sys.argv[1])) as scratch:
    scratch.write_text("half")
    print("writing", flush=True)
    sys.stdin.readline()
"""


def test_what_a_killed_process_left_is_deleted_and_what_a_running_one_writes_is_not(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "file")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "writing\n"
        before = names(tmp_path)
        assert len(before) == 1
        remove_scraps(tmp_path)
        assert names(tmp_path) == before
        process.send_signal(signal.SIGKILL)
    assert names(tmp_path) == before
    (tmp_path / ".mine.tmp").touch()  # a name that others use
    remove_scraps(tmp_path, seconds=60)
    assert names(tmp_path) == sorted([*before, ".mine.tmp"])
    remove_scraps(tmp_path)
    assert names(tmp_path) == [".mine.tmp"]


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    texts = [f"{number}\n" * 1000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: write_text(tmp_path / "file", text), texts * 5))
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() in texts


def test_a_system_that_cannot_swap_directories_moves_them_one_after_the_other(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(files.ctypes, "CDLL", lambda name: object())
    (tmp_path / "run" / "deep").mkdir(parents=True)
    (tmp_path / "run").chmod(0o750)
    replace(tmp_path / "run")
    assert names(tmp_path) == ["run"] and names(tmp_path / "run") == ["new"]
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o750


def replace(directory: Path) -> None:
    with replacing(directory) as scratch:
        scratch.mkdir()
        (scratch / "new").touch()


@pytest.fixture(params=["run", "a[b]*.before"])
def killed(request, tmp_path, monkeypatch) -> Path:
    """A directory whose replacement was killed between its two renames."""
    target = tmp_path / request.param
    target.mkdir()
    (target / "old").touch()
    with monkeypatch.context() as patch:
        patch.setattr(files, "_exchange", lambda made, target: False)
        patch.setattr(files, "_clear", lambda scratch: None)
        patch.setattr(Path, "replace", lambda made, target: None)  # the second rename
        replace(target)
    assert not target.exists()
    return target


def test_a_replacement_that_was_killed_between_its_renames_is_finished(killed):
    finish_replacing(killed.with_name("other"))
    assert not killed.exists()
    finish_replacing(killed)
    assert names(killed.parent) == [killed.name] and names(killed) == ["new"]
    finish_replacing(killed)
    assert names(killed) == ["new"]


def test_ctrl_c_between_two_renames_leaves_the_new_directory(tmp_path, monkeypatch):
    def interrupted(made, target):
        raise KeyboardInterrupt

    (tmp_path / "run").mkdir()
    monkeypatch.setattr(files, "_exchange", lambda made, target: False)
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace(tmp_path / "run")
    assert names(tmp_path) == ["run"] and names(tmp_path / "run") == ["new"]


def test_a_replacement_that_a_running_process_makes_is_left_to_it(killed):
    (scratch,) = killed.parent.iterdir()
    with hold(scratch):
        finish_replacing(killed)
        remove_scraps(killed.parent)
    assert not killed.exists() and scratch.exists()


def test_the_only_copy_of_a_directory_is_no_scrap(killed):
    remove_scraps(killed.parent)
    assert names(killed.parent) == [killed.name] and names(killed) == ["new"]


def test_scraps_of_another_user_are_left_alone(tmp_path, monkeypatch):
    def refused(*arguments):
        raise PermissionError(13, "Permission denied")

    scrap = tmp_path / ".multitask-x.tmp"
    scrap.mkdir()
    monkeypatch.setattr(files.os, "open", refused)
    remove_scraps(tmp_path)
    assert scrap.exists()


def test_a_scratch_directory_that_another_process_takes_away_is_made_again(tmp_path, monkeypatch):
    held = files.hold
    calls: list[Path] = []

    def taken(directory: Path):
        calls.append(directory)
        if len(calls) == 1:
            directory.rmdir()
        return held(directory)

    monkeypatch.setattr(files, "hold", taken)
    write_text(tmp_path / "file", "text")
    assert len(calls) == 2 and names(tmp_path) == ["file"]


def test_json_is_standard(tmp_path):
    write_json(tmp_path / "x.json", {"a": [float("nan"), (1, float("inf"))]})
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text) == {"a": [None, [1, None]]} and "NaN" not in text


# --- modes, clocks and links ---


@pytest.mark.parametrize("mask", [0o002, 0o022, 0o027, 0o077])
def test_files_that_a_library_keeps_to_the_user_get_the_mode_of_others(mask, tmp_path):
    """As safetensors makes them."""
    before = os.umask(mask)
    try:
        with replacing(tmp_path / "made") as scratch:
            scratch.mkdir()
            (scratch / "file").touch(0o600)
            (scratch / "deep").mkdir(0o700)
        (tmp_path / "as usual").touch()
        (tmp_path / "as usual, too").mkdir()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes["file"] == modes["as usual"]
    assert modes["deep"] == modes["made"] == modes["as usual, too"]


@pytest.mark.parametrize(
    ("age", "stays"), [(0, True), (50, True), (70, False), (-50, True), (-(10**8), False)]
)
def test_a_young_scrap_is_kept_if_an_age_is_asked_for(age, stays, tmp_path):
    scrap = tmp_path / ".multitask-x.tmp"
    scrap.mkdir()
    when = scrap.stat().st_mtime - age
    os.utime(scrap, (when, when))
    remove_scraps(tmp_path, seconds=60)
    assert scrap.exists() is stays


def test_a_fresh_directory_replaces_an_empty_one_alone(tmp_path):
    (tmp_path / "made").mkdir()
    with replacing(tmp_path / "made", fresh=True) as scratch:
        scratch.mkdir()
        (scratch / "new").touch()
    assert names(tmp_path / "made") == ["new"]
    for name in ("made", "late"):  # late: it appears meanwhile
        with (
            pytest.raises(UserError, match=f"{name}: something is there already"),
            replacing(tmp_path / name, fresh=True) as scratch,
        ):
            scratch.mkdir()
            (tmp_path / "late" / "mine").mkdir(parents=True, exist_ok=True)
    assert names(tmp_path / "made") == ["new"] and names(tmp_path / "late") == ["mine"]
    assert names(tmp_path) == ["late", "made"]


def test_a_directory_keeps_its_mode(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    run.chmod(0o750)
    with replacing(run) as scratch:
        scratch.mkdir()
    assert run.stat().st_mode & 0o777 == 0o750
