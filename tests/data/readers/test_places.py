"""The file, line and row of each row of a table."""

import pytest

from multitask.data.readers.places import PlacedColumns, place_of
from multitask.data.readers.tables import joined, read_table
from tests.support.data_files import make, refusal, rows_of


def test_columns_without_places_have_rows_alone():
    assert place_of({"a": [1, 2]}, 1, "texts") == "texts, row 2"
    assert place_of(PlacedColumns.of({"a": [1, 2]}, "f.parquet"), 1, "x") == "f.parquet, row 2"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.csv", 'sentence,label\n"two\nlines",1\n\nx,1\n', 5),
        ("a.tsv", "sentence\tlabel\nb\t1\n\nx\t1\n", 4),
        ("a.jsonl", '{"sentence": "b"}\n\n{"sentence": "x"}\n', 3),
        ("a.txt", "b\n\nx\n", 3),
        ("a.conll", "b O\nc O\n\nx O\n", 4),
    ],
)
def test_a_row_has_its_first_line(name, text, line, tmp_path):
    file = tmp_path / name
    file.write_text(text)
    data = make(tmp_path, {}).tasks["t"].data
    columns = read_table(file, name.partition(".")[2], data)
    assert place_of(columns, 1, "x") == f"{file}, line {line}, row 2"


def test_places_survive_joining_and_choosing():
    first = PlacedColumns.of({"a": ["p", "q"]}, "1.csv", [2, 3])
    both = joined([("1.csv", first), ("2.csv", {"a": ["r", "s"]})])
    chosen = both.take([1, 3])
    assert dict(chosen) == {"a": ["q", "s"]}
    assert place_of(chosen, 0, "x") == "1.csv, line 3, row 2"
    assert place_of(chosen, 1, "x") == "2.csv, row 2"


def test_a_wrong_label_is_named_by_line_and_row_also_after_where(tmp_path):
    text = "id,sentence,label,part\n1,a,1,x\n2,b,0,y\n3,c,nine,x\n"
    error = refusal(rows_of, tmp_path, text, where={"part": "x"}, labels=["0", "1"])
    assert error.startswith(f"{tmp_path / 'train.csv'}, line 4, row 3 (id 3): label is 'nine'")
