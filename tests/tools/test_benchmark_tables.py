"""Rows of saved tables are read by column."""

from tools.benchmark_tables import read_rows


def test_rows_of_all_tables_of_a_file(tmp_path):
    file = tmp_path / "table.md"
    tables = "| a | b |\n| --- | --- |\n| 1 | x y |\n| 2 |  |\n\ntext\n\n| c |\n| --- |\n| 3 |\n"
    file.write_text(f"headline\n\n{tables}")
    assert read_rows(file) == [{"a": "1", "b": "x y"}, {"a": "2", "b": ""}, {"c": "3"}]
