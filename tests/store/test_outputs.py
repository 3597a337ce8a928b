"""A command replaces the files of an earlier start, and no others."""

import json
import os

import pytest

from multitask.store.outputs import check_replaced, has_keys
from multitask.utils.errors import UserError


@pytest.fixture
def check(tmp_path):
    return lambda: check_replaced(tmp_path / "x.json", ("a", "b"), ("x.md", "x.png"))


def test_a_directory_without_such_files_is_free(check, tmp_path):
    check()
    (tmp_path / "notes.md").touch()
    check()


@pytest.mark.parametrize("name", ["x.json", "x.md", "x.png"])
@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', "[" * 100_000])
def test_a_file_of_something_else_is_not_replaced(name, text, check, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=rf"{name} was not written by this command: choose"):
        check()


def test_the_files_of_an_earlier_start_are_replaced(check, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"a": 1, "b": 2, "more": 3}))
    (tmp_path / "x.md").touch()
    check()


def test_of_a_link_the_link_is_replaced(check, tmp_path):
    (tmp_path / "other").touch()
    (tmp_path / "x.md").symlink_to(tmp_path / "other")
    check()


def test_a_pipe_has_no_keys(tmp_path):
    os.mkfifo(tmp_path / "x.json")
    assert not has_keys(tmp_path / "x.json", ("a",))
