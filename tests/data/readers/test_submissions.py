"""What groups hand in: folders and archives of any shape, and what is refused."""

import struct
import zipfile
from pathlib import Path

import pytest

from multitask.data.readers import submissions as module
from multitask.data.readers.submissions import read_submitted, submissions
from multitask.utils.errors import UserError

NAME = "sst-dev-output.csv"
TEXT = b"id,X\na,0\n"


def archive(file: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return file


def refusal(place: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_submitted(place, NAME)
    assert "\n" not in str(caught.value) and str(place) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "member", [NAME, f"predictions/{NAME}", f"a/b c/d/{NAME}", f"predictions\\bert\\{NAME}"]
)
def test_a_file_is_found_in_any_folder(member, tmp_path):
    others = {f"x{NAME}": b"", "main.py": b"", f"__MACOSX/._{NAME}": b"\0", "folder/": b""}
    place = archive(tmp_path / "group.ZIP", {**others, member: TEXT})
    content, source = read_submitted(place, NAME)
    assert content == TEXT and str(place) in source and NAME in source
    folder = tmp_path / "group"
    file = folder / member.replace("\\", "/")
    file.parent.mkdir(parents=True)
    file.write_bytes(TEXT)
    assert read_submitted(folder, NAME) == (TEXT, str(file))


def test_nothing_is_written(tmp_path):
    place = archive(tmp_path / "group.zip", {f"../../{NAME}": TEXT})
    before = sorted(tmp_path.parent.rglob("*"))
    assert read_submitted(place, NAME)[0] == TEXT
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_the_submissions_of_a_directory(tmp_path):
    for name in ("b", ".git", "__MACOSX"):
        (tmp_path / name).mkdir()
    archive(tmp_path / "a.zip", {})
    (tmp_path / ".DS_Store").write_bytes(b"\0")
    (tmp_path / "c.rar").write_bytes(b"Rar!")
    assert [path.name for path in submissions(tmp_path)] == ["a.zip", "b", "c.rar"]
    assert "neither a folder nor a zip" in refusal(tmp_path / "c.rar")
    for place in (tmp_path / "b", tmp_path / "none"):
        with pytest.raises(UserError, match=r"no submissions|no such directory"):
            submissions(place)


def test_one_file_is_expected(tmp_path):
    assert f"no file {NAME}" in refusal(archive(tmp_path / "a.zip", {"other.csv": TEXT}))
    twice = {f"old/{NAME}": TEXT, f"new/{NAME}": TEXT}
    assert f"2 files {NAME}" in refusal(archive(tmp_path / "b.zip", twice))
    (tmp_path / "c").mkdir()
    assert f"no file {NAME}" in refusal(tmp_path / "c")
    for name, content in twice.items():
        (tmp_path / "c" / name).parent.mkdir()
        (tmp_path / "c" / name).write_bytes(content)
    assert f"2 files {NAME}" in refusal(tmp_path / "c")


def test_links_are_not_followed(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / NAME).write_bytes(TEXT)
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "folder").symlink_to(tmp_path / "secret")
    (tmp_path / "group" / NAME).symlink_to(tmp_path / "secret" / NAME)
    assert f"no file {NAME}" in refusal(tmp_path / "group")
    (tmp_path / "linked").symlink_to(tmp_path / "secret")
    assert "neither" in refusal(tmp_path / "linked")


def test_a_damaged_archive_is_one_line(tmp_path):
    whole = archive(tmp_path / "whole.zip", {NAME: TEXT * 100}).read_bytes()
    half, flipped, locked = (tmp_path / f"{name}.zip" for name in ("half", "flipped", "locked"))
    half.write_bytes(whole[: len(whole) // 2])
    start = 30 + len(NAME)
    flipped.write_bytes(whole[:start] + bytes([whole[start] ^ 0xFF]) + whole[start + 1 :])
    at = whole.index(b"PK\x01\x02")
    bits = whole[:6] + b"\1\0" + whole[8 : at + 8] + b"\1\0" + whole[at + 10 :]
    locked.write_bytes(bits)
    for place in (half, flipped, locked):
        assert "cannot be read" in refusal(place)


def test_what_is_read_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PREDICTION_BYTES", 1000)
    big = archive(tmp_path / "big.zip", {NAME: b"\0" * 10**6})
    assert big.stat().st_size < 2000 and "1,000 bytes" in refusal(big)
    lie = big.read_bytes()  # both headers say that the file is small
    at = lie.index(b"PK\x01\x02")
    size = struct.pack("<I", 900)
    (tmp_path / "lie.zip").write_bytes(lie[:22] + size + lie[26 : at + 24] + size + lie[at + 28 :])
    refusal(tmp_path / "lie.zip")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / NAME).write_bytes(b"\0" * 1001)
    assert "1,000 bytes" in refusal(tmp_path / "folder")
    monkeypatch.setattr(module, "ARCHIVE_FILES", 2)
    many = archive(tmp_path / "many.zip", {NAME: TEXT, "a": b"", "b": b""})
    assert "more than 2 files" in refusal(many)
    for name in ("a", "b"):
        (tmp_path / "folder" / name).write_bytes(b"")
    assert "more than 2 files" in refusal(tmp_path / "folder")
    monkeypatch.setattr(module, "ARCHIVE_BYTES", 100)
    assert "100 bytes" in refusal(many)
