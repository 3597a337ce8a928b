"""Paths as a user writes them."""

from pathlib import Path

import pytest

from multitask.utils.errors import UserError
from multitask.utils.paths import check_utf8, expand_home, file_key


def test_a_tilde_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert expand_home("~/runs/~a#1") == Path("/home/someone/runs/~a#1")
    assert expand_home("runs/~") == Path("runs/~")


@pytest.mark.parametrize(
    ("name", "said"), [("~nobody-of-this-name/x", "write the complete path"), ("a\0b", "NUL")]
)
def test_what_is_no_path(name, said):
    with pytest.raises(UserError, match=said):
        expand_home(name)


def test_a_path_that_a_config_cannot_hold():
    check_utf8("/données/😀")
    with pytest.raises(UserError, match=r"^the path '/a\\udcff' is not UTF-8: rename it"):
        check_utf8("/a\udcff")


@pytest.mark.parametrize(("one", "other"), [("Ab", "aB"), ("\xe9", "E\u0301"), ("\ufb03", "FFI")])
def test_names_that_are_one_file_on_some_disks(one, other):
    assert file_key(one) == file_key(other) == file_key(file_key(one))


def test_names_that_are_two_files_everywhere():
    names = ["a", "b", "e", "\xe9", "a_b", "a.b", "a-b", "1", "\u4f60"]
    assert len({file_key(name) for name in names}) == len(names)
