"""Volumes, the modes of new files, and a clock that is not this machine's."""

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from multitask.utils import file_system, files
from multitask.utils.errors import UserError
from multitask.utils.file_system import check_no_volume_in, is_volume, make_like, stays, time_of
from multitask.utils.files import replacing


@pytest.fixture
def volume(tmp_path: Path):
    """A volume that is mounted at a path with a space."""
    place = tmp_path / "a volume"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a volume")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def bound(volume: Path, tmp_path: Path):
    """A directory of a volume that is mounted in the same volume: the device is the same."""
    (volume / "data").mkdir()
    (volume / "place").mkdir()
    command = ["mount", "--bind", str(volume / "data"), str(volume / "place")]
    subprocess.run(command, check=True)
    yield volume / "place"
    subprocess.run(["umount", str(volume / "place")], check=True)


def test_a_volume_is_known(volume):
    assert is_volume(volume) and stays(volume)
    assert not is_volume(volume.parent) and not stays(volume.parent)


def test_a_directory_that_is_mounted_a_second_time_is_known(bound):
    assert not bound.is_mount() and is_volume(bound)


def test_the_content_of_a_volume_is_replaced(volume):
    (volume / "old").mkdir()
    (volume / "old" / "file").touch()
    (volume / "lost+found").mkdir()
    with replacing(volume) as made:
        made.mkdir()
        (made / "new").touch()
        assert (volume / "old" / "file").exists()
    assert sorted(path.name for path in volume.iterdir()) == ["lost+found", "new"]


def test_a_directory_with_a_volume_inside_is_not_replaced(volume):
    with pytest.raises(UserError, match=r"a volume is a volume, so .* is not replaced"):
        check_no_volume_in(volume.parent)
    with pytest.raises(UserError, match="is not replaced"), replacing(volume.parent):
        pass
    assert volume.exists()


def test_where_the_parent_cannot_be_written_the_directory_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(file_system.os, "access", lambda place, mode: place != tmp_path)
    assert stays(tmp_path / "run") and not stays(tmp_path / "run" / "deep")


def test_a_directory_gets_mode_and_group_of_the_one_before(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "old").chmod(0o2771)
    if os.getuid() == 0:
        os.chown(tmp_path / "old", -1, 1234)
    make_like(tmp_path / "new", tmp_path / "old")
    old, new = ((tmp_path / name).stat() for name in ("old", "new"))
    assert (old.st_gid, stat.S_IMODE(old.st_mode)) == (new.st_gid, stat.S_IMODE(new.st_mode))


def test_the_time_is_that_of_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 4e9)
    (tmp_path / "file").touch()
    assert abs(time_of(tmp_path) - (tmp_path / "file").stat().st_mtime) < 60
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# --- a directory that stays in its place, without a volume ---


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is treated as a volume is."""
    monkeypatch.setattr(files, "stays", lambda directory: directory == tmp_path / "run")
    (tmp_path / "run" / "deep").mkdir(parents=True)
    for name in ("a", "b", "deep/old"):
        (tmp_path / "run" / name).write_text("old")
    return tmp_path / "run"


def replace(place: Path) -> None:
    with replacing(place) as made:
        (made / "deep").mkdir(parents=True)
        for name in ("b", "c", "deep/new"):
            (made / name).write_text("new")


def content(place: Path) -> dict[str, str]:
    return {
        str(file.relative_to(place)): file.read_text()
        for file in place.rglob("*")
        if file.is_file()
    }


NEW = {"b": "new", "c": "new", "deep/new": "new"}


def test_nothing_of_the_old_content_is_left(place):
    number = place.stat().st_ino
    replace(place)
    assert content(place) == NEW and place.stat().st_ino == number
    assert not [path for path in place.iterdir() if path.name.startswith(".")]


def test_a_failure_leaves_the_old_content(place):
    before = content(place)
    with pytest.raises(OSError), replacing(place) as made:
        made.mkdir()
        raise OSError(28, "No space left on device")
    assert content(place) == before


@pytest.mark.parametrize("moves", range(9))
def test_a_kill_between_two_moves_is_finished_by_the_next_command(moves, place, monkeypatch):
    """Three old entries move away, their directory gets another name, three new ones come."""
    rename, left = Path.rename, [moves]

    class Killed(BaseException):
        pass

    def counted(path: Path, target: Path) -> Path:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", counted)
        patch.setattr(files, "_clear", lambda scratch: None)  # a killed process clears nothing
        if moves < 7:
            with pytest.raises(Killed):
                replace(place)
        else:
            replace(place)
    files.finish_replacing(place)
    assert content(place) == NEW
    files.remove_scraps(place)
    assert content(place) == NEW
