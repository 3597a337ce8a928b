"""Cells that any text may stand in: Markdown and LaTeX show it as it is."""

import csv
import io
import re
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.reporting.table_formats import Table, difference, latex, number, p_value, score


def test_latex_escapes_what_would_be_a_command():
    assert latex("sst_para & 5 % of $x$ #1 {a}") == r"sst\_para \& 5 \% of \$x\$ \#1 \{a\}"
    assert latex("a\\b ~ ^ | <x>") == (
        r"a\textbackslash{}b \textasciitilde{} \textasciicircum{} \textbar{} "
        r"\textless{}x\textgreater{}"
    )
    assert latex("two\nlines") == "two lines"


def test_latex_writes_plus_minus_and_a_real_minus_but_leaves_names_alone():
    assert latex("0.5 ± 0.1") == r"0.5 $\pm$ 0.1"
    assert latex("-0.1 [-0.2, +0.3]") == "$-$0.1 [$-$0.2, +0.3]"
    assert latex("single-1 lr=1e-5 seed_-") == r"single-1 lr=1e-5 seed\_-"


@given(st.text(max_size=30))
def test_latex_leaves_no_special_character_bare(text):
    escaped = latex(text)
    for command in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}"):
        escaped = escaped.replace(command, "")
    for words in (r"\textbar{}", r"\textless{}", r"\textgreater{}", r"$\pm$", r"$\Delta$", "$-$"):
        escaped = escaped.replace(words, "")
    assert not re.search(r"(?<!\\)[&%$#_{}~^]", escaped)
    assert "\n" not in escaped


def test_tables_hold_a_row_a_line():
    table = Table(["name", "n"], [["a", "10"], ["longer", "-"]])
    assert table.text() == "name    n\n------  --\na       10\nlonger  -"
    assert table.markdown().splitlines() == [
        "| name | n |", "| --- | --- |", "| a | 10 |", "| longer | - |",
    ]  # fmt: skip
    assert table.latex().splitlines() == [
        r"\begin{tabular}{lc}", r"\toprule", r"name & n \tabularnewline", r"\midrule",
        r"a & 10 \tabularnewline", r"longer & - \tabularnewline", r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip


def test_marked_cells_stand_out_and_csv_keeps_numbers():
    table = Table(["name", "a_b"], [["x & y", 0.1], ["z", None]], frozenset({(0, 1)}))
    assert table.text() == "name   a_b\n-----  -----\nx & y  0.1 *\nz      None"
    assert table.markdown().splitlines()[2:] == ["| x &amp; y | **0.1** |", "| z | None |"]
    assert r"x \& y & \textbf{0.1} \tabularnewline" in table.latex()
    assert table.csv() == "name,a_b\nx & y,0.1\nz,\n"


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_is_a_formula_in_a_spreadsheet(name):
    rows = list(csv.reader(io.StringIO(Table([name, "x"], [[name, -0.5]]).csv(), newline="")))
    name = name.replace("\r", " ")
    assert rows == [[f"'{name}", "x"], [f"'{name}", "-0.5"]]


def test_no_score_is_a_dash():
    assert (score(None), score(0.1236), score(0.0)) == ("-", "0.124", "0.000")


@pytest.mark.parametrize(
    ("value", "pattern", "text"),
    [(-0.0001, "z.3f", "0.000"), (1.23456, ".3g", "1.23"), (None, ".2f", "-"), (nan, ".2f", "-")],
)
def test_numbers(value, pattern, text):
    assert number(value, pattern) == text


def test_differences_and_p_values():
    found = {"value": 0.0082, "low": -0.0031, "high": 0.02}
    assert difference(found, 2) == "+0.01 [+0.00, +0.02]"
    assert difference(found | {"low": None}) == "+0.008 [-, +0.020]"
    assert [p_value(p) for p in (0.1234, 0.0001, None)] == ["p 0.123", "p<0.001", "p -"]
