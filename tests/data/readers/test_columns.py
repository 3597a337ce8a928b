"""Columns by name: rows that `where` or `dev_share` leave, and data that is not there."""

import os

import pytest

from multitask.data.load_rows import load_rows
from multitask.data.readers.columns import Table
from tests.support.data_files import BINARY, make, refusal, rows_of


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"where": {"label": "7"}}, "tasks.t.data.where: keeps none of the 2 rows of "),
        ({"dev": None, "dev_share": 1e-9}, "tasks.t.data.dev_share: of the 2 rows of "),
    ],
)
def test_rows_of_which_nothing_is_left(data, message, tmp_path):
    (tmp_path / "train.csv").write_text("id,sentence,label\n1,a,1\n2,b,0\n")
    split = "dev" if "dev" in data else "train"
    result = refusal(load_rows, make(tmp_path, data), "t", split, BINARY)
    assert message in result


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": "none.csv"}, "data.train: no such file: {dir}/none.csv (is `data_dir` right?)"),
        ({"train": None}, "data.train: the task has no train data: name it as `train:`"),
        ({"train": "."}, "data.train: not a file: {dir}"),
        ({"train": "pipe"}, "data.train: not a file: {dir}/pipe"),
        ({"train": "*"}, "data.train: not a file: {dir}/pipe"),
        ({"format": "disk", "path": "nowhere"}, "data.path: cannot load the data set 'nowhere'"),
        ({"format": "hub", "path": "no/where"}, "data.path: cannot load the data set 'no/where'"),
    ],
)
def test_missing_data_names_the_key(data, message, tmp_path):
    config = make(tmp_path, data)
    os.mkfifo(tmp_path / "pipe")
    result = refusal(load_rows, config, "t", "train", BINARY)
    assert result.startswith(f"{tmp_path / 'config.yaml'}:")
    assert message.format(dir=tmp_path) in result


def test_a_missing_test_file_may_be_left_out(tmp_path):
    result = refusal(load_rows, make(tmp_path, {"test": "none.csv"}), "t", "test", BINARY)
    assert result.endswith("none.csv (is `data_dir` right?; null where there is none)")


def test_a_file_next_to_the_yaml_is_answered_with_data_dir(tmp_path, monkeypatch):
    config = make(tmp_path, {"train": "own.csv"}).model_copy(update={"data_dir": "embedded"})
    assert "(is `data_dir` right?)" in refusal(load_rows, config, "t", "train", BINARY)
    (tmp_path / "own.csv").write_text("id,sentence,label\n1,a,1\n")
    result = refusal(load_rows, config, "t", "train", BINARY)
    assert result.endswith(f"(it is in {tmp_path}: set data_dir={tmp_path})")
    monkeypatch.chdir(tmp_path)
    result = refusal(load_rows, config, "t", "train", BINARY)
    assert result.endswith(f"(it is in {tmp_path}: set data_dir=.)")


def test_missing_dev_rows_may_be_a_share_of_train(tmp_path):
    result = refusal(load_rows, make(tmp_path, {"dev": None}), "t", "dev", BINARY)
    assert "dev_share" in result
    result = refusal(load_rows, make(tmp_path, {"dev": "none.csv"}), "t", "dev", BINARY)
    assert result.endswith("(is `data_dir` right?); or take a share of train: `dev_share: 0.1`")


def test_places_survive_joining_and_choosing():
    first, second = Table({"a": ["p", "q"]}, "1.csv", [2, 3]), Table({"a": ["r", "s"]}, "2.parquet")
    both = Table.joined([first, second], "*")
    assert (both.source, both.rows) == ("*", 4)
    chosen = both.take([1, 3])
    assert dict(chosen) == {"a": ["q", "s"]}
    assert chosen.place(0) == "1.csv, line 3, row 2"
    assert chosen.place(1) == "2.parquet, row 2"
    assert "2.csv: its columns are not those of 1.csv" in refusal(
        Table.joined, [first, Table({"b": ["r"]}, "2.csv")], "*"
    )


def test_a_wrong_label_is_named_by_line_and_row_also_after_where(tmp_path):
    text = "id,sentence,label,part\n1,a,1,x\n2,b,0,y\n3,c,nine,x\n"
    error = refusal(rows_of, tmp_path, text, where={"part": "x"}, labels=["0", "1"])
    assert error.startswith(f"{tmp_path / 'train.csv'}, line 4, row 3 (id 3): label is 'nine'")


def test_a_format_that_the_ending_does_not_tell(tmp_path):
    assert "data.train: " in refusal(rows_of, tmp_path, "x", "x.xlsx")
    assert rows_of(tmp_path, "id\tsentence\tlabel\n1\ta\t1\n", "x.data", format="tsv").ids == ["1"]
