"""The header line decides the separator; nothing in a cell is reinterpreted or filled in."""

from pathlib import Path

import pytest

from multitask.config import DataConfig
from multitask.data.readers.separated import read_separated
from multitask.data.readers.tables import read_table
from tests.support.data_files import refusal

DATA = DataConfig(text="a", text2="b", label="y")


@pytest.mark.parametrize("declared", [",", "\t"])
@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_the_header_line_decides(separator, declared):
    lines = [["y", "a", "b"], ["1", 'say "x"', "one, two\tthree; four | five"]]
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in line] for line in lines]
    text = "\n".join(separator.join(line) for line in quoted)
    columns = read_separated(text, Path("f.csv"), declared, DATA)
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
    assert list(read_separated(text, Path("f.csv"), declared, DATA)) == columns


def test_without_a_header_line_the_number_of_columns_decides():
    data = DataConfig(text="a", label="y", header=["id", "y", "mark", "a"])
    columns = read_separated("gj04\t1\t\tOur friends, all\n", Path("f.csv"), ",", data)
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
    result = refusal(read_separated, "a,b,y\n1,2,3\n\n1,2\n", Path("f.csv"), ",", data)
    assert result.startswith("f.csv, line 4: 2 cells, but the header has 3: ")
