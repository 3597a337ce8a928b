"""An encoding that lacks a character is no error: the character is escaped as in JSON."""

import io
import json
import sys

import pytest
from tqdm import tqdm

from multitask.utils.terminal import escape_output, say, without_controls

TEXT = "très bon 😀 \udc80"
CONTROLS = [
    chr(code)
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\t\n"
]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_json_is_read_back(encoding, stream, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, stream, io.TextIOWrapper(raw, encoding=encoding))
    escape_output()
    print(json.dumps(TEXT, ensure_ascii=False), file=getattr(sys, stream), flush=True)
    assert json.loads(raw.getvalue().decode(encoding)) == TEXT


def test_a_stream_that_has_no_encoding_is_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "stdout", object())
    escape_output()


def test_control_characters_are_escaped_and_nothing_else_is():
    text = "tab\tline\n\u2028 👩\u200d🔬 é"
    assert without_controls(text) == text
    assert without_controls("\x1b]0;title\x07\r\x9b2J") == r"\x1b]0;title\x07\x0d\x9b2J"
    assert without_controls("a\u202eb") == r"a\u202eb"


def printed(monkeypatch, stream: str) -> io.BytesIO:
    """Replace a stream by one that writes into the returned object, and escape the output."""
    raw = io.BytesIO()
    text = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, stream, text)
    escape_output()
    return raw


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("sign", CONTROLS, ids=ascii)
def test_no_control_character_is_printed_and_json_is_read_back(sign, stream, monkeypatch):
    raw, text = printed(monkeypatch, stream), f"a\\{sign}b\t{sign}[2J"
    print(f"class {text}", file=getattr(sys, stream))
    getattr(sys, stream).writelines([json.dumps(text, ensure_ascii=False), "\n"])
    shown = raw.getvalue().decode()
    assert sign not in shown and shown.count("\n") == 2
    assert json.loads(shown.split("\n")[1]) == text


def test_escaping_twice_is_escaping_once(monkeypatch):
    raw = printed(monkeypatch, "stdout")
    escape_output()
    print("\x1b 👩\u200d🔬")
    assert raw.getvalue().decode() == "\\u001b 👩\u200d🔬\n"


def test_progress_bars_move_and_their_titles_do_not(monkeypatch):
    plain, raw = io.StringIO(), printed(monkeypatch, "stderr")
    for file in (plain, sys.stderr):
        with tqdm(total=2, desc="a\x1bb", file=file, ncols=40, mininterval=0) as bar:
            with tqdm(total=2, desc="c\rd", file=file, ncols=40, position=1) as other:
                other.update()
            bar.update()
    shown = raw.getvalue().decode()
    assert shown.count("\x1b[A") == plain.getvalue().count("\x1b[A") > 0
    assert shown.count("\r") == plain.getvalue().replace("c\rd", "cd").count("\r") > 0
    assert "a\\u001bb" in shown and "c\\u000dd" in shown


def test_a_line_is_out_at_once(monkeypatch):
    """A pipe would keep it until its buffer is full."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    say("step 3/9")
    assert raw.getvalue() == b"step 3/9\n"
