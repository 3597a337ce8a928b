"""Paths as a user writes them."""

from pathlib import Path

import pytest

from multitask.utils.errors import UserError
from multitask.utils.paths import expand_home


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
