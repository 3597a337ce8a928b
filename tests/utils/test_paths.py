"""Paths as a user writes them."""

from pathlib import Path

import pytest

from multitask.utils.errors import UserError
from multitask.utils.paths import check_utf8, expand_home


def test_a_tilde_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert expand_home("~/runs/~a#1") == Path("/home/someone/runs/~a#1")
    assert expand_home("runs/~") == Path("runs/~")


@pytest.mark.parametrize(
    ("name", "said"),
    [("~nobody-of-this-name/x", "write the complete path"), ("a\0b", "NUL")],
)
def test_what_is_no_path(name, said):
    with pytest.raises(UserError, match=said):
        expand_home(name)


def test_a_path_that_a_config_cannot_hold():
    check_utf8("/données/😀")
    with pytest.raises(UserError, match=r"^the path '/a\\udcff' is not UTF-8: rename it"):
        check_utf8("/a\udcff")
