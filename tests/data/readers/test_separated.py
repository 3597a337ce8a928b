"""The header line decides the separator; nothing in a cell is reinterpreted or filled in."""

import pytest

from multitask.config import DataConfig
from multitask.data.load_rows import load_rows
from multitask.data.readers.separated import read_separated
from multitask.data.readers.tables import read_table
from tests.support.data_files import BINARY, make, refusal

DATA = DataConfig(text="a", text2="b", label="y")


@pytest.mark.parametrize("declared", [",", "\t"])
@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_the_header_line_decides(separator, declared):
    lines = [["y", "a", "b"], ["1", 'say "x"', "one, two\tthree; four | five"]]
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in line] for line in lines]
    text = "\n".join(separator.join(line) for line in quoted)
    columns = read_separated(text, "f.csv", declared, DATA)
    assert columns == {name: [cell] for name, cell in zip(*lines, strict=True)}


@pytest.mark.parametrize(
    ("text", "declared", "columns"),
    [
        # the declared one, where it gives the columns
        ("a,b,y;c\n1,2,3\n", ",", ["a", "b", "y;c"]),
        # a test file has no label
        ("id;a;b\n1;2;3\n", ",", ["id", "a", "b"]),
        # two others would do: the declared one is kept
        ("a;b;y\n", ";", ["a", "b", "y"]),
        # a quote that only one reading can read
        ('a\tb\ty\n"x, ""z""\ty"\t2\t3\n', ",", ["a", "b", "y"]),
    ],
)
def test_which_separator(text, declared, columns):
    assert list(read_separated(text, "f.csv", declared, DATA)) == columns


def test_without_a_header_line_the_number_of_columns_decides():
    data = DataConfig(text="a", label="y", header=["id", "y", "mark", "a"])
    columns = read_separated("gj04\t1\t\tOur friends, all\n", "f.csv", ",", data)
    assert columns == {"id": ["gj04"], "y": ["1"], "mark": [""], "a": ["Our friends, all"]}


@pytest.mark.parametrize(
    ("raw", "quoting", "cells"),
    [
        ("a\ty\r\nx\rz\t1\r\n", False, ["x\rz"]),
        ("a\ty\nx\x0bz\u2028\x85\t1\n", False, ["x\x0bz\u2028\x85"]),
        ('a\ty\r\n"x\r\nz\r"\t1\r\n', True, ["x\r\nz\r"]),
        ("a\ty\rx\t1\rz\t0\r", True, ["x", "z"]),
        ("a\ty\n  \nx\t1\n\n\r\n", True, ["x"]),
        ("a\n \nx\n", True, [" ", "x"]),
    ],
)
def test_line_ends_and_carriage_returns(raw, quoting, cells, tmp_path):
    (tmp_path / "f.tsv").write_bytes(raw.encode())
    data = DataConfig(text="a", label="y", quoting=quoting)
    assert read_table(tmp_path / "f.tsv", "tsv", data)["a"] == cells


@pytest.mark.parametrize("quoting", [True, False])
def test_a_row_with_a_missing_cell_is_refused(quoting):
    data = DataConfig(text="a", label="y", quoting=quoting)
    result = refusal(read_separated, "a,b,y\n1,2,3\n\n1,2\n", "f.csv", ",", data)
    assert result.startswith("f.csv, line 4: 2 cells, but the header has 3: ")


@pytest.mark.parametrize("line", ["sep={}", '"sep={}"', "SEP={}", "sep={}\r"])
@pytest.mark.parametrize("separator", [",", "\t", ";", "|", "^", ":"])
@pytest.mark.parametrize("quoting", [True, False])
def test_a_first_line_of_excel_names_the_separator(line, separator, quoting):
    data = DataConfig(text="a", text2="b", label="y", quoting=quoting)
    rows = [["a", "b", "y"], ["one", "two", "1"]]
    text = "\n".join([line.format(separator), *map(separator.join, rows)])
    expected = {"a": ["one"], "b": ["two"], "y": ["1"]}
    assert read_separated(text, "f.csv", ",", data) == expected
    message = refusal(read_separated, text + f"\n1{separator}2", "f.csv", ",", data)
    assert message.startswith("f.csv, line 4: 2 cells, but the header has 3: ")


def test_a_wrong_line_of_excel_does_no_harm():
    assert read_separated("sep=,\na;b;y\n1;2;3", "f.csv", ",", DATA)["y"] == ["3"]
    assert refusal(read_separated, "sep=;", "f.csv", ",", DATA) == "f.csv: the file is empty"


@pytest.mark.parametrize("header", ["a,b,y", "\ufeffa,b,y", '\ufeff"a",b,y', "A, B ,Y", "b,y,a"])
@pytest.mark.parametrize("quoting", [True, False])
def test_a_header_in_the_middle_is_refused(header, quoting):
    data = DataConfig(text="a", text2="b", label="y", quoting=quoting)
    message = refusal(read_separated, f"a,b,y\n1,2,3\n{header}\n", "f.csv", ",", data)
    expected = "f.csv, line 3: the header again, as in files that were joined: delete the line"
    assert message == expected


def test_rows_with_some_names_of_the_header_are_rows(capsys):
    assert read_separated("a,b,y\na,b,1\na,a,a\n", "f.csv", ",", DATA)["y"] == ["1", "a"]
    one = read_separated("a\nx\na\n", "f.csv", ",", DataConfig(text="a"))
    assert one == {"a": ["x", "a"]}  # it may be a text
    assert "f.csv, line 3: the header again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "quoting", "line"),
    [
        ("a\ty\rx\t1\nz\t0\n", True, 1),
        ("a\ty\nx\t1\rz\t0\n", True, 2),
        ('a\ty\r"x\nw"\t1\rz\t0\r', True, 1),
        ("a\ty\rx\t1\nz\t0\n", False, 1),
        ("a\ty\nw\t1\nx\t1\rz\t0\n", False, 3),
        ("a\rx\nz\n", False, 1),
    ],
)
def test_mixed_line_ends_are_the_reason(text, quoting, line, tmp_path):
    (tmp_path / "f.tsv").write_bytes(text.encode())
    data = DataConfig(text="a", label="y", quoting=quoting)
    message = refusal(read_table, tmp_path / "f.tsv", "tsv", data)
    assert message.startswith(f"{tmp_path}/f.tsv, line {line}: ")
    assert "some lines end with a carriage return (CR) and others with a line feed (LF)" in message


def test_a_header_of_one_cell_names_the_unknown_separator(tmp_path):
    (tmp_path / "train.csv").write_text("sentence:label\na film:1\n")
    result = refusal(load_rows, make(tmp_path, {}), "t", "train", BINARY)
    assert result.endswith(
        "the header is one cell `sentence:label`: is `:` the separator? Known: comma, tab, `;`, `|`"
    )
