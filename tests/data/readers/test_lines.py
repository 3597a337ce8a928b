"""One reader of lines for every command: which characters end a line, and which encoding it is."""

import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.config import Choice, DataConfig, TaskConfig
from multitask.data.load_rows import texts_from_file
from multitask.data.readers.lines import (
    each_line,
    lines_of,
    other_encoding,
    read_cells,
    read_lines,
    read_text,
)
from multitask.data.readers.tables import read_table
from multitask.inference.search.text_index import read_corpus
from multitask.utils.limits import DATA_BYTES
from tests.support.data_files import refusal

# characters at which `str.splitlines` ends a line, and we do not
NO_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
LINES = ["a film", f"b{NO_ENDS}b", "", "  ", "café ☕\ttab"]


def task(**keys):
    """A task with these keys."""
    return TaskConfig(**{"data": {}, "head": Choice(name="classification"), **keys})


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", [0, 1, 3])
def test_lines_end_with_lf_cr_or_crlf(end, mark, last, tmp_path):
    file = tmp_path / "x.txt"
    file.write_bytes((mark + end.join(LINES) + last * end).encode())
    expected = LINES + [""] * max(0, last - 1)
    assert read_lines(file) == list(each_line(file)) == expected
    assert read_text(file) == "\n".join(LINES) + last * "\n"


pieces = st.lists(
    st.sampled_from(["a", "é ", " ", "\t", "\n", "\r", "\r\n", *NO_ENDS]), max_size=12
)


@given(pieces)
def test_every_command_reads_the_same_texts_of_a_file_with_mixed_line_ends(parts):
    text = "".join(["first\r", *parts]).replace("\t", "-")
    expected = [
        (number, line)
        for number, line in enumerate(re.split("\r\n|\r|\n", text), 1)
        if line.strip()
    ]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "x.txt"
        file.write_bytes(text.encode())
        indexed, _ = read_corpus(file)
        rows = texts_from_file(task(), file)
        predicted = list(
            zip((int(i) + 1 for i in rows.ids), (t for (t,) in rows.texts), strict=True)
        )
        trained = read_table(file, "txt", DataConfig())["sentence"]
    assert indexed == predicted == expected
    assert trained == [line for _, line in expected]


def test_the_ending_may_be_in_capitals(tmp_path):
    (tmp_path / "X.TXT").write_text("a film\ta dog\n")
    assert texts_from_file(task(input="cross", data={"text2": "b"}), tmp_path / "X.TXT").texts == [
        ("a film", "a dog")
    ]


@pytest.mark.parametrize("form", ["jsonl", "conll", "documents"])
def test_other_formats_have_the_same_line_ends(form, tmp_path):
    text = {
        "jsonl": '{"a": "x\u2028\x85", "b": 1}\n{"a": "y", "b": 2}\n',
        "conll": "the O\ncat B-X\n\nman O\n",
        "documents": "one\ntwo\n\nthree\nfour\n",
    }[form]
    data, file = DataConfig(text="a", text2="c", label="b"), tmp_path / "x"
    file.write_text(text)
    expected = read_table(file, form, data)
    mixed = text.replace("\n", "\r", 1)
    for other in (mixed, text.replace("\n", "\r"), text.replace("\n", "\r\n")):
        file.write_bytes(other.encode())
        assert read_table(file, form, data) == expected


def test_a_table_keeps_carriage_returns_unless_they_end_all_lines(tmp_path):
    (tmp_path / "x.csv").write_bytes(b'a,b\r\n"x\ry",1\r\n')
    assert read_cells(tmp_path / "x.csv") == 'a,b\r\n"x\ry",1\r\n'
    (tmp_path / "x.csv").write_bytes(b"a,b\rx,1\r")
    assert read_cells(tmp_path / "x.csv") == "a,b\nx,1\n"


TEXTS = {
    "a table": "id,text,label\n1,good film,1\n2,bad film,0\n",
    "Russian": "хороший фильм\nплохой фильм\n",
    "Chinese": "text,label\n好的上电影一,1\n坏电影上,0\n",
    "long": "one line of many words\r\n" * 9000,
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"])
@pytest.mark.parametrize("marked", [True, False])
def test_utf_16_and_32_are_named_with_and_without_a_byte_order_mark(
    name, encoding, marked, tmp_path
):
    file = tmp_path / "x.csv"
    file.write_bytes((marked * "\ufeff" + TEXTS[name]).encode(encoding))
    shown = encoding[:6] if marked else encoding
    advice = f"save it as UTF-8 (`iconv -f {shown} -t UTF-8`)"
    expected = f"{file}: its encoding is {shown}, not UTF-8: {advice}"
    for read in (read_cells, read_text, read_lines):
        assert refusal(read, file) == expected


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"a\nb\n",
        "é\n".encode(),
        b"caf\xe9 \0\n",
        # a few zero bytes in UTF-8
        b"a\0b\n",
        b"ab\0cd\n",
        b"text,label\nab\0c,1\nef,2\n",
        b"\0\0\0\0\nabc\n",
    ],
)
def test_other_bytes_are_no_utf_16(raw):
    assert other_encoding(raw) == ""


def test_the_line_that_is_not_utf_8_is_named(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"fine\r\rcaf\xe9\nfine\n")
    message = f"{tmp_path}/x.txt, line 3: not UTF-8: save it as UTF-8 ("
    assert refusal(read_lines, tmp_path / "x.txt").startswith(message)
    assert "x.txt: cannot be read: No such file" in refusal(read_lines, tmp_path / "no" / "x.txt")


def test_only_a_file_that_is_read_at_once_has_a_limit(tmp_path):
    (tmp_path / "x").touch()
    os.truncate(tmp_path / "x", DATA_BYTES + 1)  # takes no space
    for read in (read_lines, read_text, read_cells):
        assert "larger than 1,073,741,824 bytes" in refusal(read, tmp_path / "x")


@given(st.text("a\n\r\x0c\u2028"))
def test_the_lines_of_a_text_end_at_line_feeds_alone(text):
    assert [*lines_of(text)] == text.split("\n")
