"""An encoding that lacks a character is no error: the character is escaped as in JSON."""

import io
import json
import sys

import pytest

from multitask.utils.terminal import escape_output, without_controls

TEXT = "très bon 😀 \udc80"


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
