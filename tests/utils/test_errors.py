"""The one exception for a user's mistake, and the door that makes it of others."""

import os
from pathlib import Path

import pytest

from multitask.utils.errors import (
    UserError,
    check_regular,
    check_text,
    is_first_process,
    no_file,
    one_line,
    reading,
    suggest,
)
from tests.support.panics import REASON, panic


@pytest.mark.parametrize(
    "error", [UserError("known"), FileNotFoundError(2, "not there"), KeyboardInterrupt()]
)
def test_what_says_what_is_wrong_passes_the_door(error):
    with pytest.raises(type(error)) as caught, reading("x.csv"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("a"), "x.csv: cannot be read: KeyError: 'a'"),
        (ValueError("two\n lines"), "x.csv: cannot be read: ValueError: two lines"),
        (RuntimeError(), "x.csv: cannot be read: RuntimeError: no reason given"),
    ],
)
def test_any_other_becomes_one_line_that_names_the_source(error, said):
    with pytest.raises(UserError) as caught, reading("x.csv"):
        raise error
    assert str(caught.value) == said
    assert caught.value.__cause__ is error


def test_a_panic_of_a_rust_library_is_a_mistake_of_the_file():
    said = rf"^x\.json: cannot be read: .*{REASON}"
    with pytest.raises(UserError, match=said), reading("x.json"):
        panic()


@pytest.mark.parametrize(("text", "said"), [(" \n", "empty"), ("caf\udce9", "not UTF-8")])
def test_a_text_of_the_command_line(text, said):
    with pytest.raises(UserError, match=f"--text is {said}"):
        check_text(text, "--text")
    check_text("café", "--text")


@pytest.mark.parametrize(("rank", "first"), [(None, True), ("0", True), ("1", False)])
def test_the_first_process(rank, first, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    assert is_first_process() == first


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("men", ("mean", "max"), " (did you mean 'mean'?)"),
        ("qqq", ("mean", "max"), " (known: mean, max)"),
        ("qqq", [str(i) for i in range(99)], f" (known: {', '.join(map(str, range(50)))}, ...)"),
        ("qqq", (), ""),
    ],
)
def test_the_nearest_word_or_all(word, known, said):
    assert suggest(word, known) == said


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert no_file(tmp_path / "none") == f"no such file: {tmp_path}/none"
    assert no_file(Path("a" * 5000)) == f"no such file: {'a' * 5000}"
    check_regular(tmp_path / "none")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        assert no_file(path) == f"not a file: {path}"
        with pytest.raises(UserError, match="neither a file nor a link to one"):
            check_regular(path)


def test_a_message_is_one_line_that_loses_its_middle_if_it_is_long():
    assert one_line("a\n b\x1b[2J\x9bc é") == r"a b\x1b[2J\x9bc é"
    assert one_line("a" * 2000) == "a" * 2000
    assert one_line("a" * 9000 + "what to do").endswith("aaawhat to do")
    assert len(one_line("a" * 9000)) < 2010
